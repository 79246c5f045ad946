// SPDX-License-Identifier: Apache-2.0
// The form's dependency graph, which lights up as fields are decided, over the passes that decided them. A column is a wave: the longest path
// from a field without parents. Fields of a chain have no edges and stand in reading order.
import { begin, colour, ticks } from "./draw.js";

const MARGIN = 14;
const GLOW_MS = 600;

function waves(fields) {
  const byName = new Map(fields.map((f) => [f.name, f]));
  const depth = new Map();
  const of = (name) => {
    if (depth.has(name)) return depth.get(name);
    depth.set(name, 0);
    const parents = (byName.get(name)?.parents ?? []).filter((p) => byName.has(p));
    const d = parents.length ? 1 + Math.max(...parents.map(of)) : 0;
    depth.set(name, d);
    return d;
  };
  fields.forEach((f) => of(f.name));
  return depth;
}

/** A chain in reading order, on as many lines as make its dots stand evenly. */
function snake(fields) {
  const perColumn = Math.max(1, Math.round(Math.sqrt(fields.length / 2.5)));
  const columns = [];
  fields.forEach((f, i) => (columns[Math.floor(i / perColumn)] ??= []).push(f));
  return columns;
}

export class Graph {
  constructor(canvas, passesCanvas, onPoint = () => {}) {
    this.canvas = canvas;
    this.passesCanvas = passesCanvas;
    this.start([]);
    canvas.addEventListener("mousemove", (e) => onPoint(this.nearest(e)));
    canvas.addEventListener("mouseleave", () => onPoint(null));
  }

  start(fields) {
    this.fields = fields;
    this.byName = new Map(fields.map((f) => [f.name, f]));
    this.decided = new Map();
    this.passes = [];
    this.here = null;
    this.last = { rows: 0, proposed: 0, tested: 0, accepted: 0, ms: 0 };
    const depth = waves(fields);
    this.columns = [];
    if (fields.every((f) => !(f.parents ?? []).length)) this.columns = snake(fields);
    else for (const f of fields) (this.columns[depth.get(f.name)] ??= []).push(f);
    this.draw();
  }

  decide(name, pass) {
    this.decided.set(name, { pass, at: performance.now() });
    this.draw();
  }

  /** One pass more; its numbers are sums since the answer began. */
  pass(p) {
    const l = this.last;
    const kept = p.accepted - l.accepted;
    const tested = p.tested - l.tested;
    const dropped = Math.max(0, tested - kept);
    this.passes.push({ from: l.ms, to: p.elapsed_ms, rows: p.rows - l.rows, kept, dropped, prompt: !this.passes.length && tested === 0 });
    this.last = { rows: p.rows, proposed: p.proposed, tested: p.tested, accepted: p.accepted, ms: p.elapsed_ms };
    this.draw();
  }

  /** The field that is pointed at, with all that it depends on. */
  point(name) {
    this.here = name;
    this.near = new Set();
    const up = (n) => {
      if (!n || this.near.has(n)) return;
      this.near.add(n);
      (this.byName.get(n)?.parents ?? []).forEach(up);
    };
    up(name);
    this.draw();
    return this.near;
  }

  layout(width, height) {
    const places = new Map();
    const n = this.columns.length;
    this.columns.forEach((column, i) => {
      const x = n === 1 ? width / 2 : MARGIN + ((width - 2 * MARGIN) * i) / (n - 1);
      column.forEach((f, k) => places.set(f.name, [x, (height * (k + 0.5)) / column.length]));
    });
    return places;
  }

  /** Draws before the next frame, however often it is asked. */
  draw() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.drawNow();
      const now = performance.now();
      if ([...this.decided.values()].some((d) => now - d.at < GLOW_MS)) this.draw();
    });
  }

  drawNow() {
    const { c, width, height } = begin(this.canvas);
    this.places = this.layout(width, height);
    const most = Math.max(1, ...this.columns.map((column) => column.length));
    const radius = Math.min(6, Math.max(2.5, (height / most) * 0.32));
    const lit = colour("plan");
    const unlit = colour("line");
    const cause = colour("truth");
    for (const field of this.fields)
      for (const parent of field.parents ?? []) {
        if (!this.places.has(parent)) continue;
        const near = this.here && this.near.has(field.name) && this.near.has(parent);
        c.strokeStyle = near ? cause : this.decided.has(parent) ? lit : unlit;
        c.globalAlpha = near ? 0.9 : this.here ? 0.18 : 0.5;
        c.lineWidth = near ? 1.6 : 1;
        this.drawEdge(c, this.places.get(parent), this.places.get(field.name));
      }
    c.globalAlpha = 1;
    const now = performance.now();
    for (const field of this.fields) this.drawNode(c, field, radius, now, { lit, unlit, cause });
    this.drawLabel(c, width);
    this.drawPasses();
  }

  drawEdge(c, from, to) {
    const middle = (from[0] + to[0]) / 2;
    c.beginPath();
    c.moveTo(...from);
    c.bezierCurveTo(middle, from[1], middle, to[1], ...to);
    c.stroke();
  }

  drawNode(c, field, radius, now, { lit, unlit, cause }) {
    const [x, y] = this.places.get(field.name);
    const done = this.decided.get(field.name);
    const open = (field.parents ?? []).every((p) => this.decided.has(p));
    const glow = done ? 1 - (now - done.at) / GLOW_MS : 0;
    if (glow > 0) {
      c.globalAlpha = 0.35 * glow;
      c.fillStyle = lit;
      c.beginPath();
      c.arc(x, y, radius * (1.4 + 1.6 * glow), 0, 7);
      c.fill();
      c.globalAlpha = 1;
    }
    c.beginPath();
    c.arc(x, y, radius, 0, 7);
    c.fillStyle = done ? (this.here && this.near.has(field.name) ? cause : lit) : colour("panel");
    c.fill();
    if (done) return;
    c.strokeStyle = this.here && this.near.has(field.name) ? cause : open ? lit : unlit;
    c.lineWidth = open ? 1.6 : 1;
    c.stroke();
  }

  drawLabel(c, width) {
    if (!this.here || !this.places.has(this.here)) return;
    const [x, y] = this.places.get(this.here);
    const done = this.decided.get(this.here);
    const text = `${this.here}${done?.pass ? `, pass ${done.pass}` : ""}`;
    const wide = c.measureText(text).width + 12;
    const left = Math.max(0, Math.min(width - wide, x - wide / 2));
    const top = y > 34 ? y - 30 : y + 12;
    c.fillStyle = colour("raised");
    c.beginPath();
    c.roundRect(left, top, wide, 18, 5);
    c.fill();
    c.fillStyle = colour("bright");
    c.fillText(text, left + 6, top + 9);
  }

  drawPasses() {
    const { c, width, height } = begin(this.passesCanvas);
    if (!this.passes.length) return;
    const end = Math.max(1, this.passes.at(-1).to);
    const most = Math.max(...this.passes.map((p) => p.rows), 1);
    const floor = height - 15;
    const x = (ms) => (width * ms) / end;
    const y = (rows) => floor * (1 - 0.98 * Math.sqrt(rows / most)); // a prompt's rows would hide the others on an even scale
    const colours = { kept: colour("kept"), dropped: colour("dropped"), rows: colour("rows"), prompt: colour("prompt") };
    for (const p of this.passes) {
      const left = x(p.from);
      const wide = Math.max(1, x(p.to) - left - 1);
      const bar = (from, to, name) => {
        if (to <= from) return;
        c.fillStyle = colours[name];
        c.fillRect(left, y(to), wide, y(from) - y(to));
      };
      bar(0, p.kept, "kept");
      bar(p.kept, p.kept + p.dropped, "dropped");
      bar(p.kept + p.dropped, Math.max(p.rows, p.kept + p.dropped), p.prompt ? "prompt" : "rows");
    }
    c.fillStyle = colour("dim");
    for (const ms of ticks(end, Math.max(2, width / 90))) {
      c.textAlign = ms === 0 ? "left" : x(ms) > width - 30 ? "right" : "center";
      c.fillText(ms === 0 ? "0 ms" : `${ms}`, x(ms), height - 6);
    }
    c.textAlign = "left";
    const first = this.passes[0]; // without rows: the cameras, before the prompt's pass
    if (first.prompt && x(first.to) > 60) c.fillText(first.rows > 0 ? `${first.rows} rows` : "cameras", 6, 12);
  }

  nearest(event) {
    const box = this.canvas.getBoundingClientRect();
    const at = [event.clientX - box.left, event.clientY - box.top];
    let best = null;
    for (const [name, [x, y]] of this.places ?? []) {
      const d = Math.hypot(x - at[0], y - at[1]);
      if (d < 16 && (!best || d < best.d)) best = { name, d };
    }
    return best?.name ?? null;
  }
}
