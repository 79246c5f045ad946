// SPDX-License-Identifier: Apache-2.0
// The server's page in a real browser: every field fills, the graph and the plan change, three decoders give equal bytes, nothing is asked of
// another origin, the console stays empty, keys work, and a tab that closes cancels what it asked for.
//   page_test.mjs SLIPSTREAM MODEL WORK_DIR      (needs chromium and playwright-core; else exit 77, see modules.mjs)
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { readByLibrary } from "./mcap.mjs";
import { find } from "./modules.mjs";

const [, , program, model, work] = process.argv;
const skip = (why) => {
  console.log(`page_test: skipped: ${why}`);
  process.exit(77);
};
const browserPath = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync) ?? skip("no chromium");
const playwright = (await find("playwright-core")) ?? skip("no playwright-core: ./run node-tools, or NODE_PATH=FOLDER of npm install playwright-core@1.50.1");
const chromium = playwright.default.chromium;

let failures = 0;
function expect(truth, what) {
  if (!truth) {
    failures++;
    console.error(`page_test: expected ${what}`);
  }
}

mkdirSync(work, { recursive: true });
const port = 20000 + (process.pid % 20000);
const server = spawn(program, ["serve", "--model", model, "--port", `${port}`], { stdio: ["ignore", "inherit", "inherit"] });
const origin = `http://127.0.0.1:${port}`;
const up = async () => {
  for (let i = 0; i < 300; i++) {
    try {
      if ((await fetch(`${origin}/health`)).ok) return;
    } catch {
      // not there yet
    }
    await new Promise((r) => setTimeout(r, 100));
  }
  throw new Error("expected the server to be ready within 30 s");
};

const running = async () => {
  const text = await (await fetch(`${origin}/metrics`)).text();
  return Number(/num_requests_running(?:\{[^}]*\})? ([0-9.e+-]+)/.exec(text)?.[1]);
};

/** The messages of an MCAP file by topic; every record must end where the next begins, and every content be JSON. */
function readMcap(bytes) {
  const magic = [0x89, 0x4d, 0x43, 0x41, 0x50, 0x30, 0x0d, 0x0a];
  expect(magic.every((b, i) => bytes[i] === b && bytes[bytes.length - 8 + i] === b), "MCAP's magic at both ends");
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const text = (at) => new TextDecoder().decode(bytes.subarray(at + 4, at + 4 + view.getUint32(at, true)));
  const topics = new Map();
  const messages = {};
  let last = 0;
  for (let at = 8; at < bytes.length - 8; ) {
    const [op, length] = [bytes[at], Number(view.getBigUint64(at + 1, true))];
    const body = at + 9;
    if (op === 4) topics.set(view.getUint16(body, true), text(body + 4));
    if (op === 5) (messages[topics.get(view.getUint16(body, true))] ??= []).push(JSON.parse(new TextDecoder().decode(bytes.subarray(body + 22, body + length))));
    last = op;
    at = body + length;
    expect(at <= bytes.length - 8, "MCAP records that end within the file");
  }
  expect(last === 2, "an MCAP footer");
  return messages;
}

let browser;
try {
  await up();
  browser = await chromium.launch({ executablePath: browserPath, args: ["--no-sandbox", "--disable-gpu"] });
  const page = await browser.newPage({ viewport: { width: 1600, height: 1000 } });
  const foreign = [];
  const complaints = [];
  page.on("request", (r) => r.url().startsWith(origin) || r.url().startsWith("data:") || r.url().startsWith("blob:") || foreign.push(r.url()));
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && complaints.push(m.text()));
  page.on("pageerror", (e) => complaints.push(String(e)));
  await page.goto(origin);
  await page.waitForSelector("#cameras canvas", { timeout: 30000 });
  await page.waitForSelector(".field");
  const pixels = (id) => page.$eval(id, (c) => c.toDataURL());
  const before = { graph: await pixels("#graph"), plan: await pixels("#plan"), camera: await pixels("#cameras canvas:nth-child(2)") };
  const waiting = await page.$$eval(".field", (f) => f.length);
  expect(waiting > 5, `a form of more than five fields, got ${waiting}`);

  const answered = async (n) => {
    await page.waitForFunction((least) => !document.getElementById("answer").disabled && document.querySelectorAll(".field.done").length >= least, n, { timeout: 120000 });
    await page.evaluate(() => new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r))));
  };
  await page.keyboard.press("a");
  await answered(1);
  const open = await page.$$eval(".field:not(.done)", (f) => f.map((x) => x.textContent));
  expect(open.length === 0, `every field to fill, got open: ${open}`);
  expect(before.graph !== (await pixels("#graph")), "the graph's pixels to change");
  expect(before.plan !== (await pixels("#plan")), "the plan's pixels to change");
  expect(before.camera !== (await pixels("#cameras canvas:nth-child(2)")), "the plan to be drawn over the front camera");
  await page.screenshot({ path: `${work}/answer.png` });

  await page.keyboard.press("r");
  await page.waitForFunction(() => !document.getElementById("badge").hidden, null, { timeout: 240000 });
  expect((await page.textContent("#badge")) === "equal bytes", "the badge to say equal bytes");
  expect((await page.$$eval(".lane .numbers", (all) => all.filter((n) => / passes, [0-9]+ ms, [0-9.]+x$/.test(n.textContent)).length)) === 3, "three lanes with passes and times");
  await page.keyboard.press("t");
  await page.screenshot({ path: `${work}/race.png` });
  await page.keyboard.press("?");
  expect(await page.$eval("#keys", (d) => d.open), "the keys to be shown");
  await page.keyboard.press("Escape");
  const [download] = await Promise.all([page.waitForEvent("download"), page.keyboard.press("e")]);
  await download.saveAs(`${work}/answer.mcap`);
  const told = readMcap(new Uint8Array(readFileSync(`${work}/answer.mcap`)));
  expect(told["/camera/0"]?.[0].data.length > 1000 && told["/camera/2"], "three pictures in the MCAP file");
  expect(told["/answer"]?.length === waiting, `${waiting} fields in the MCAP file, got ${told["/answer"]?.length}`);
  const same = (await readByLibrary(readFileSync(`${work}/answer.mcap`))) ?? told;
  expect(JSON.stringify(same) === JSON.stringify(told), "the format's own library to read the same from the MCAP file");
  expect(told["/plan"]?.[0].entities.some((e) => e.id === "plan") && told["/passes"]?.length > 1, "the plan and the passes in the MCAP file");

  // What a field depends on, by arrow keys; pointing at nothing ends it.
  await page.focus("#fields");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("ArrowDown");
  expect((await page.$$eval(".field.here", (f) => f.length)) === 1, "arrow keys to point at a field");
  await page.evaluate(() => document.activeElement.blur());

  // Rollouts spread; a deadline that cannot be kept is told, with what was decided.
  await page.fill("#temperature", "0.9");
  await page.fill("#rollouts", "3");
  const narrow = await pixels("#plan");
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await answered(waiting);
  expect(narrow !== (await pixels("#plan")), "the rollouts to be drawn");
  await page.fill("#deadline", "1");
  await page.keyboard.press("Escape");
  await page.keyboard.press("a");
  await page.waitForFunction(() => document.getElementById("state").classList.contains("bad"), null, { timeout: 60000 });
  for (const [id, value] of [["#temperature", "0"], ["#rollouts", "1"]]) await page.fill(id, value);
  await page.keyboard.press("Escape");

  // A race goes to its end, whatever the deadline, and asks about one scene, whatever is typed meanwhile.
  const shown = await page.inputValue("#seed");
  await page.evaluate(() => {
    document.getElementById("race").click();
    document.getElementById("seed").value = "77";
    document.getElementById("seed").dispatchEvent(new Event("change"));
  });
  await page.waitForFunction(() => !document.getElementById("badge").hidden, null, { timeout: 240000 });
  expect((await page.textContent("#badge")) === "equal bytes", "a race with a deadline to end with equal bytes");
  expect((await page.inputValue("#seed")) === shown, `a race to keep its scene, of seed ${shown}`);
  await page.waitForFunction(() => !document.getElementById("answer").disabled);
  await page.fill("#deadline", "");
  await page.keyboard.press("Escape");

  // Of two scenes that are asked for the newer is shown, also where the older comes last.
  let release;
  const held = new Promise((r) => (release = r));
  await page.route(/v1\/scene\?seed=31$/, async (route) => {
    await held;
    await route.continue();
  });
  const slow = page.waitForResponse(/v1\/scene\?seed=31$/);
  const seedOf = (value) => page.$eval("#seed", (e, v) => ((e.value = v), e.dispatchEvent(new Event("change"))), value);
  const pictures = await pixels("#cameras canvas:nth-child(2)");
  await seedOf("31");
  const newer = page.waitForResponse(/v1\/scene\?seed=32$/);
  await seedOf("32");
  await newer;
  await page.waitForFunction((was) => document.querySelector("#cameras canvas:nth-child(2)").toDataURL() !== was, pictures);
  const newest = await pixels("#cameras canvas:nth-child(2)");
  release();
  await (await slow).finished();
  await new Promise((r) => setTimeout(r, 500));
  expect(newest === (await pixels("#cameras canvas:nth-child(2)")), "the older scene not to take the newer one's place");
  await seedOf(shown);
  await page.waitForFunction((was) => document.querySelector("#cameras canvas:nth-child(2)").toDataURL() !== was, newest);

  // A photograph that is dropped takes the cameras' place and is asked about.
  const stale = complaints.length; // a refusal shows as a failed load
  await page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 320, height: 200 });
    const c = canvas.getContext("2d");
    c.fillStyle = "#667";
    c.fillRect(0, 0, 320, 200);
    c.fillStyle = "#a33";
    c.fillRect(120, 90, 80, 60);
    const blob = await new Promise((r) => canvas.toBlob(r, "image/jpeg"));
    const data = new DataTransfer();
    for (const name of ["left", "front", "right"]) data.items.add(new File([blob], `${name}.jpg`, { type: "image/jpeg" }));
    document.getElementById("cameras-panel").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
  });
  await page.waitForFunction(() => /3 photographs/.test(document.getElementById("scene-note").textContent));
  await page.keyboard.press("a");
  await answered(waiting);
  await page.screenshot({ path: `${work}/photographs.png` });
  expect(complaints.length === stale, `photographs to be answered, got ${complaints}`);
  complaints.splice(0, complaints.length, ...complaints.filter((c) => !/status of 50[34]/.test(c)));
  await page.keyboard.press("n");
  await page.waitForFunction(() => document.getElementById("seed").value.endsWith("18"));
  await page.setViewportSize({ width: 400, height: 800 });
  await page.screenshot({ path: `${work}/narrow.png`, fullPage: true });
  expect((await page.evaluate(() => document.documentElement.scrollWidth)) <= 400, "no scrolling sideways at 400 pixels");

  await page.selectOption("#decoder", "ar");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("a");
  await page.waitForFunction(() => document.querySelectorAll(".field.done").length > 0, null, { timeout: 120000 });
  await page.close();
  let left = NaN;
  for (let i = 0; i < 50 && left !== 0; i++) {
    left = await running();
    await new Promise((r) => setTimeout(r, 100));
  }
  expect(left === 0, `a closed tab to cancel its request, got ${left} running`);
  expect(foreign.length === 0, `no request to another origin, got ${foreign}`);
  expect(complaints.length === 0, `an empty console, got ${complaints}`);
} catch (error) {
  failures++;
  console.error(`page_test: ${error.stack ?? error}`);
} finally {
  await browser?.close();
  server.kill("SIGTERM");
}
await new Promise((r) => server.on("exit", r));
console.log(failures ? `page_test: ${failures} failures` : "page_test: the page works");
process.exit(failures ? 1 : 0);
