// SPDX-License-Identifier: Apache-2.0
// The server's interface as the page uses it. Errors are thrown with the server's own words.

const key = () => localStorage.getItem("slipstream-key");

function headers() {
  const out = { "Content-Type": "application/json" };
  if (key()) out.Authorization = `Bearer ${key()}`;
  return out;
}

async function failed(response) {
  let message = `${response.status} ${response.statusText}`;
  try {
    message = (await response.json()).error.message;
  } catch {
    // no JSON: the status says all there is
  }
  const error = new Error(message);
  error.status = response.status;
  return error;
}

export async function get(path) {
  const response = await fetch(path, { headers: headers() });
  if (!response.ok) throw await failed(response);
  return response.json();
}

/** The JSON objects of a stream of server-sent events, one after the other. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const data = rest.slice(0, end).split("\n").filter((l) => l.startsWith("data:")).map((l) => l.slice(5).trim()).join("\n");
      rest = rest.slice(end + 2);
      if (data === "[DONE]") return;
      if (data) yield JSON.parse(data);
    }
  }
}

/** The body of a chat request about images (data URLs), an ego state and a prompt. */
export function requestBody({ images, ego, prompt, form, decoder, temperature, rollouts, seed }) {
  const content = images.map((url) => ({ type: "image_url", image_url: { url } }));
  if (prompt) content.push({ type: "text", text: prompt });
  const own = { decoder };
  if (ego) own.ego = ego;
  if (form) own.form = form;
  return {
    messages: [{ role: "user", content }],
    temperature,
    n: rollouts,
    seed,
    stream: true,
    stream_options: { include_usage: true, include_fields: true },
    slipstream: own,
  };
}

/** Asks, and calls `told` with every chunk as it comes. Resolves to the whole text. */
export async function ask(body, told, signal) {
  const response = await fetch("v1/chat/completions", { method: "POST", headers: headers(), body: JSON.stringify(body), signal });
  if (!response.ok) throw await failed(response);
  const texts = [];
  for await (const chunk of events(response)) {
    if (chunk.error) throw new Error(chunk.error.message);
    for (const choice of chunk.choices ?? []) texts[choice.index] = (texts[choice.index] ?? "") + (choice.delta?.content ?? "");
    told(chunk);
  }
  return texts;
}
