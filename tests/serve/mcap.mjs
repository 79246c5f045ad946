// SPDX-License-Identifier: Apache-2.0
// MCAP files as their own library reads them: what Foxglove and its relatives see.
//   mcap.mjs FILE...      each must be read whole, its sums right, every message JSON (needs @mcap/core; else exit 77, see modules.mjs)
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { find } from "./modules.mjs";

/** {topic: messages}; null where the library is not there. Throws where it finds a mistake. */
export async function readByLibrary(bytes) {
  const library = await find("@mcap/core");
  if (!library) return null;
  const reader = new library.McapStreamReader({ validateCrcs: true });
  reader.append(bytes);
  const topics = new Map();
  const schemas = new Set();
  const messages = {};
  for (let record; (record = reader.nextRecord()); ) {
    if (record.type === "Schema") schemas.add(record.id), JSON.parse(new TextDecoder().decode(record.data));
    if (record.type === "Channel") {
      if (!schemas.has(record.schemaId)) throw new Error(`channel ${record.topic}: expected a schema before it, got none`);
      topics.set(record.id, record.topic);
    }
    if (record.type === "Message") (messages[topics.get(record.channelId)] ??= []).push(JSON.parse(new TextDecoder().decode(record.data)));
  }
  if (!reader.done()) throw new Error("expected a file that ends in a footer, got one that does not");
  return messages;
}

/** Messages as the file's index has them; null where a file has none. */
export async function countByIndex(bytes) {
  const library = await find("@mcap/core");
  const readable = { size: async () => BigInt(bytes.length), read: async (at, n) => bytes.subarray(Number(at), Number(at + n)) };
  let count = 0;
  const reader = await library.McapIndexedReader.Initialize({ readable }).catch(() => null);
  if (!reader) return null;
  for await (const _ of reader.readMessages()) count++;
  return count;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  for (const file of process.argv.slice(2)) {
    const bytes = readFileSync(file);
    const messages = await readByLibrary(bytes);
    if (!messages) {
      console.log("mcap: skipped: no @mcap/core: ./run node-tools");
      process.exit(77);
    }
    const told = Object.values(messages).reduce((n, m) => n + m.length, 0);
    const indexed = await countByIndex(bytes);
    if (!told || told !== indexed) throw new Error(`${file}: expected as many messages by the index as in a row, got ${indexed} and ${told}`);
    console.log(`${file}: ${told} messages of ${Object.keys(messages).join(", ")}`);
  }
}
