// SPDX-License-Identifier: Apache-2.0
// Node packages that tests use where they are: in the folders of NODE_PATH, or in build/node, where `./run node-tools` puts them.
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

export async function find(name) {
  const own = fileURLToPath(new URL("../../build/node/node_modules", import.meta.url));
  for (const folder of [...(process.env.NODE_PATH ?? "").split(":").filter(Boolean), own]) {
    try {
      return await import(pathToFileURL(createRequire(`${folder}/x.js`).resolve(name)));
    } catch {
      // not there
    }
  }
  return null;
}
