// SPDX-License-Identifier: Apache-2.0
// OpenAI's own client against the server: answers whole and streamed, log probabilities, stops, rollouts, refusals, an answer given up.
//   openai_client.mjs SLIPSTREAM MODEL           (needs npm's openai@6.30.1; else exit 77, see modules.mjs)
import { spawn } from "node:child_process";
import { find } from "./modules.mjs";

const [, , program, folder] = process.argv;
const module = await find("openai");
if (!module) {
  console.log("openai_client: skipped: no openai: ./run node-tools, or NODE_PATH=FOLDER of npm install openai@6.30.1");
  process.exit(77);
}
const OpenAI = module.default?.default ?? module.default;

let failures = 0;
const expect = (truth, what) => {
  if (truth) return;
  failures++;
  console.error(`openai_client: expected ${what}`);
};

const port = 20000 + (process.pid % 20000);
const server = spawn(program, ["serve", "--model", folder, "--port", `${port}`], { stdio: ["ignore", "inherit", "inherit"] });
const base = `http://127.0.0.1:${port}`;
try {
  for (let i = 0; i < 300 && !(await fetch(`${base}/health`).then((r) => r.ok, () => false)); i++) await new Promise((r) => setTimeout(r, 100));
  const scene = await (await fetch(`${base}/v1/scene?seed=900000017`)).json();
  const client = new OpenAI({ baseURL: `${base}/v1`, apiKey: "none", maxRetries: 0 });
  const model = (await client.models.list()).data[0].id;
  const messages = [{ role: "user", content: scene.images.map((url) => ({ type: "image_url", image_url: { url } })) }];
  const asked = { model, messages, seed: 0, slipstream: { ego: scene.ego } };

  const whole = await client.chat.completions.create({ ...asked, logprobs: true });
  const text = whole.choices[0].message.content;
  const told = whole.choices[0].logprobs.content;
  const bytes = Buffer.from(told.flatMap((t) => t.bytes)).toString();
  expect(whole.choices[0].finish_reason === "stop" && text.length > 100, "an answer");
  expect(bytes === text, "the tokens' bytes to be the text");
  expect(told.every((t) => t.logprob <= 0) && told.some((t) => t.logprob < 0), "log probabilities");

  let streamed = "", usage = null, end = null;
  for await (const chunk of await client.chat.completions.create({ ...asked, logprobs: true, stream: true, stream_options: { include_usage: true } })) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
    usage = chunk.usage ?? usage;
    end = chunk.choices[0]?.logprobs ?? end;
  }
  expect(streamed === text, "the stream's text to be the answer's");
  expect(usage?.completion_tokens > 0, "usage at the stream's end");
  expect(JSON.stringify(end?.content) === JSON.stringify(told), "the stream's log probabilities to be the answer's");

  const long = await client.completions.create({ model, prompt: "go on", max_tokens: 24 });
  const stop = long.choices[0].text.slice(3, 5);
  const short = await client.completions.create({ model, prompt: "go on", max_tokens: 24, stop });
  expect(long.choices[0].finish_reason === "length", `free text to end at its limit, got ${long.choices[0].finish_reason}`);
  expect(short.choices[0].finish_reason === "stop", `a stop to end the text, got ${short.choices[0].finish_reason}`);
  expect(short.choices[0].text === long.choices[0].text.split(stop)[0], "the text before the stop");

  const rollouts = await client.chat.completions.create({ ...asked, n: 3, temperature: 0.8, seed: 5 });
  const one = await client.chat.completions.create({ ...asked, n: 1, temperature: 0.8, seed: 5 });
  expect(rollouts.choices.length === 3 && rollouts.choices[0].message.content === one.choices[0].message.content, "rollout 0 to be the answer of n = 1");

  const refused = await client.chat.completions.create({ ...asked, presence_penalty: 1 }).catch((e) => e);
  expect(refused.status === 400 && refused.constructor.name === "BadRequestError" && refused.param === "presence_penalty", "a refusal by name");
  const aborted = new AbortController();
  setTimeout(() => aborted.abort(), 5);
  const given = await client.chat.completions.create({ ...asked, slipstream: { ego: scene.ego, decoder: "ar" } }, { signal: aborted.signal }).catch((e) => e);
  expect(given.constructor.name === "APIUserAbortError", "an answer to be given up");
} catch (error) {
  failures++;
  console.error(`openai_client: ${error.stack ?? error}`);
} finally {
  server.kill("SIGTERM");
}
const code = await new Promise((r) => (server.exitCode === null ? server.on("exit", r) : r(server.exitCode)));
expect(code === 0, `the server to drain and exit with 0, got ${code}`);
console.log(failures ? `openai_client: ${failures} failures` : "openai_client: OpenAI's client is served");
process.exit(failures ? 1 : 0);
