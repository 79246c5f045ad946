// SPDX-License-Identifier: Apache-2.0
// The page: what is asked, what is told while it is answered, and where it is drawn.
import { ask, get, requestBody } from "./api.js";
import { Cameras, decoded } from "./cameras.js";
import { Fields } from "./fields.js";
import { Graph } from "./graph.js";
import { Latency } from "./latency.js";
import { mcap } from "./mcap.js";
import { Plan } from "./plan.js";
import { Race } from "./race.js";

const $ = (id) => document.getElementById(id);
const cameras = new Cameras($("cameras"));
const point = (name) => fields.point(name, graph.point(name));
const fields = new Fields($("fields"), point);
const graph = new Graph($("graph"), $("passes"), point);
const plan = new Plan($("plan"));
const race = new Race($("lanes"), $("badge"));
const latency = new Latency($("latency"), $("latency-note"));

const state = {
  form: null, // of the model: {name, fields: [{name, section, parents}]}
  scene: null, // {images, ego, cameras, truth, ...} of the simulator, or {images} that were dropped
  running: null, // AbortController
  last: null, // for the export
  seed: "", // of the scene that is shown
  turn: 0, // scenes and photographs that were asked for: the newest is shown, whichever comes last
};

function say(text, bad = false) {
  $("state").textContent = text;
  $("state").classList.toggle("bad", bad);
}

// ---- what the server has

async function connect() {
  try {
    const props = await get("props");
    state.props = props;
    $("model").textContent = [props.model, props.dtype, props.form && `${props.visibility} visibility`, props.instruction_set.split(":")[0]].filter(Boolean).join(", ");
    $("model").title = `${props.instruction_set}; ${props.fingerprint}`;
    state.form = props.form ? await get("v1/forms/model") : null;
    fillDecoders();
    say("");
    await showScene(Number($("seed").value));
  } catch (error) {
    if (error.status === 401) return askForKey();
    say(`no answer from the server: ${error.message}`, true);
    setTimeout(connect, 2000);
  }
}

function askForKey() {
  const key = prompt("This server asks for an API key");
  if (key) {
    localStorage.setItem("slipstream-key", key);
    connect();
  } else {
    say("an API key is needed", true);
  }
}

const hasGraph = () => state.props?.visibility === "graph";

function fillDecoders() {
  const names = ["auto", "ar", "scaffold-ar", "scaffold-spec"];
  if (hasGraph()) names.push("fields", "fields-spec");
  $("decoder").replaceChildren(...names.map((n) => new Option(n, n)));
}

const racers = () => (hasGraph() ? ["ar", "fields", "fields-spec"] : ["ar", "scaffold-ar", "scaffold-spec"]);

/** While an answer is under way its scene stays: what is asked and drawn next must not be of another one. */
async function showScene(seed) {
  const turn = ++state.turn;
  try {
    const scene = state.running ? null : await get(`v1/scene?seed=${seed}`);
    const pictures = scene && (await decoded(scene.images));
    if (turn !== state.turn) return;
    if (state.running) {
      $("seed").value = state.seed;
      return;
    }
    state.scene = scene;
    state.seed = seed;
    $("scene-note").textContent = (scene.family ?? "").replaceAll("_", " ");
    cameras.show(pictures, scene.cameras);
    plan.clear();
    plan.set({ truth: scene.truth ?? [], agents: scene.agents ?? [], roads: scene.roads ?? [], history: scene.history ?? [] });
    begin();
  } catch (error) {
    if (turn === state.turn && !state.running) say(`scene ${seed}: ${error.message}`, true);
  }
}

async function dropped(files) {
  if (state.running) return;
  const turn = ++state.turn;
  const urls = await Promise.all(
    [...files].filter((f) => f.type.startsWith("image/")).map(
      (f) =>
        new Promise((resolve) => {
          const reader = new FileReader();
          reader.onload = () => resolve(reader.result);
          reader.readAsDataURL(f);
        }),
    ),
  );
  if (!urls.length) return say("expected image files", true);
  // The ego state of the scene that was shown stays: a photograph does not say how fast the car was.
  let pictures;
  try {
    pictures = await decoded(urls);
  } catch {
    return say("expected photographs that a browser can read", true);
  }
  if (state.running || turn !== state.turn) return;
  cameras.show(pictures);
  state.scene = { images: urls, ego: state.scene?.ego, cameras: [] };
  $("scene-note").textContent = `${urls.length} photograph${urls.length > 1 ? "s" : ""}, at the scene's speed`;
  plan.clear();
  plan.draw();
  begin();
}

// ---- one answer

function begin() {
  const list = (state.form?.fields ?? []).map((f) => ({ ...f, parents: hasGraph() ? f.parents : [] }));
  fields.clearText();
  fields.start(list.slice());
  graph.start(list);
  cameras.setPath([]);
  plan.set({ path: [], waypoints: [], rollouts: [] });
  $("form-note").textContent = list.length ? `${list.length} field${list.length > 1 ? "s" : ""}` : "";
  $("graph-note").textContent = $("plan-note").textContent = "";
}

function showPlan(trajectory, rollouts = []) {
  const path = trajectory?.fit?.points ?? trajectory?.waypoints ?? [];
  plan.set({ path, waypoints: trajectory?.waypoints ?? [], rollouts });
  cameras.setPath(path);
  const end = path.at(-1);
  const spread = trajectory?.spread_m?.at(-1);
  if (end) $("plan-note").textContent = `${Math.hypot(...end).toFixed(1)} m ahead${spread ? `, spread ${spread.toFixed(1)} m` : ""}`;
}

/** What is asked of the scene, without a deadline. */
function body(decoder) {
  return requestBody({
    images: state.props?.vision ? (state.scene?.images ?? []) : [],
    ego: state.scene?.ego,
    prompt: state.scene?.prompt ?? "",
    decoder,
    temperature: Number($("temperature").value),
    rollouts: Number($("rollouts").value),
    seed: 0,
  });
}

function withDeadline(asked) {
  const deadline = Number($("deadline").value);
  return deadline > 0 ? { ...asked, slipstream: { ...asked.slipstream, deadline_ms: deadline, partial: true } } : asked;
}

/** Asks once; `watch` decides whether the form, graph and plan show it. Resolves to {texts, ms, forwards}. */
async function answer(asked, watch, told = () => {}) {
  if (!state.scene) throw new Error("expected a scene or photographs, got none");
  const run = { began: Date.now(), images: state.scene?.images ?? [], path: [], truth: state.scene?.truth ?? [], fields: [], passes: [] };
  const began = performance.now();
  let text = "";
  let forwards = 0;
  const texts = await ask(
    asked,
    (chunk) => {
      const own = chunk.slipstream;
      for (const choice of chunk.choices ?? []) if (choice.index === 0) text += choice.delta?.content ?? "";
      if (own?.forwards) forwards = own.forwards;
      if (own?.event === "field") {
        run.fields.push({ name: own.name, value: own.value, ms: own.elapsed_ms });
        if (watch) {
          fields.decide(own.name, own.value);
          graph.decide(own.name, own.forwards);
        }
      }
      if (own?.event === "pass" && watch) graph.pass(own);
      if (own?.trajectory && watch) {
        run.path = own.trajectory.fit?.points ?? own.trajectory.waypoints ?? [];
        showPlan(own.trajectory, own.trajectory.rollouts ?? []);
      }
      if (chunk.partial) run.partial = true;
      if (watch) fields.text(text);
      told({ done: run.fields.length, forwards, ms: performance.now() - began });
    },
    state.running.signal,
  );
  if (watch) {
    run.passes = graph.passes;
    run.rollouts = plan.rollouts;
    state.last = run;
    $("export").disabled = false;
  }
  return { texts, forwards, ms: performance.now() - began, partial: run.partial, fields: run.fields.length };
}

/** Runs `work` as the one thing that is under way. */
async function exclusively(work) {
  if (state.running) return;
  state.running = new AbortController();
  $("answer").disabled = $("race").disabled = true;
  $("stop").disabled = false;
  try {
    await work();
  } catch (error) {
    if (error.name === "AbortError") say("stopped");
    else {
      say(error.message, true);
      if (error.status === 504) latency.add(Number($("deadline").value), true);
    }
  } finally {
    state.running = null;
    $("answer").disabled = $("race").disabled = false;
    $("stop").disabled = true;
  }
}

function answerOnce() {
  return exclusively(async () => {
    begin();
    say("answering");
    const done = await answer(withDeadline(body($("decoder").value || "auto")), true);
    const deadline = Number($("deadline").value);
    latency.add(done.ms, done.partial || (deadline > 0 && done.ms > deadline));
    $("graph-note").textContent = `${done.forwards} passes`;
    if (done.partial) say(`the deadline passed with ${done.fields} of ${state.form?.fields.length ?? done.fields} fields decided`, true);
    else say(`${done.ms.toFixed(0)} ms, ${done.forwards} passes`);
  });
}

function raceOnce() {
  return exclusively(async () => {
    const names = racers();
    race.start(names);
    const total = Math.max(1, state.form?.fields.length ?? 1);
    begin();
    say("warming up");
    // All are asked the same, whatever is typed meanwhile, and without a deadline: where it passes the answers are not whole, and differ.
    const asked = body();
    const askedOf = (decoder) => ({ ...asked, slipstream: { ...asked.slipstream, decoder } });
    await answer(askedOf(names.at(-1)), false);
    for (const name of names) {
      begin();
      say(`${name} answers`);
      const done = await answer(askedOf(name), true, ({ done: n, forwards, ms }) => race.progress(name, n / total, ms, forwards));
      race.progress(name, 1, done.ms, done.forwards);
      race.finish(name, done.texts.join("\u0000"));
      latency.add(done.ms, false);
      $("graph-note").textContent = `${done.forwards} passes`;
    }
    if (race.judge()) say("three decoders, one answer");
    else say("the answers differ: please report this", true);
  });
}

function exportMcap() {
  if (!state.last) return;
  const url = URL.createObjectURL(new Blob([mcap(state.last)], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = "slipstream.mcap";
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// ---- keys, buttons, the theme

function setTheme(name) {
  document.documentElement.dataset.theme = name;
  localStorage.setItem("slipstream-theme", name);
  redraw();
}

function redraw() {
  cameras.draw();
  plan.draw();
  graph.draw();
  latency.draw();
}

function step(by) {
  if (state.running) return;
  $("seed").value = Math.max(0, Number($("seed").value) + by);
  showScene(Number($("seed").value));
}

const actions = {
  a: answerOnce,
  r: raceOnce,
  s: () => state.running?.abort(),
  escape: () => state.running?.abort(),
  n: () => step(1),
  p: () => step(-1),
  e: exportMcap,
  o: () => $("files").click(),
  d: () => $("decoder").focus(),
  t: () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"),
  "?": () => $("keys").showModal(),
};

function listen() {
  $("controls").addEventListener("submit", (e) => {
    e.preventDefault();
    answerOnce();
  });
  for (const [id, key] of Object.entries({ race: "r", stop: "s", export: "e", theme: "t", help: "?", next: "n", previous: "p", open: "o" }))
    $(id).addEventListener("click", () => actions[key]());
  $("seed").addEventListener("change", () => showScene(Number($("seed").value)));
  $("deadline").addEventListener("input", () => latency.setDeadline(Number($("deadline").value)));
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.altKey || e.metaKey || $("keys").open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) {
      if (e.key === "Escape") e.target.blur(); // back to the keys
      return;
    }
    const action = actions[e.key.toLowerCase()];
    if (!action) return;
    e.preventDefault();
    action();
  });
  $("files").addEventListener("change", () => {
    dropped($("files").files);
    $("files").value = "";
  });
  const panel = $("cameras-panel");
  panel.addEventListener("dragover", (e) => {
    e.preventDefault();
    panel.classList.add("over");
  });
  panel.addEventListener("dragleave", () => panel.classList.remove("over"));
  panel.addEventListener("drop", (e) => {
    e.preventDefault();
    panel.classList.remove("over");
    dropped(e.dataTransfer.files);
  });
  new ResizeObserver(redraw).observe(document.querySelector("main"));
}

listen();
setTheme(localStorage.getItem("slipstream-theme") ?? (matchMedia("(prefers-color-scheme: light)").matches ? "light" : "dark"));
connect();
