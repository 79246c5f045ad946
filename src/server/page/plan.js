// SPDX-License-Identifier: Apache-2.0
// The plan from above, forward upwards: roads and agents of a simulated scene, the planned path, the rollouts' spread, what the expert drove.
import { begin, colour, polyline, roundUp } from "./draw.js";

export class Plan {
  constructor(canvas) {
    this.canvas = canvas;
    this.clear();
  }

  clear() {
    this.path = [];
    this.waypoints = [];
    this.rollouts = [];
    this.truth = [];
    this.history = [];
    this.agents = [];
    this.roads = [];
  }

  set(parts) {
    Object.assign(this, parts);
    this.draw();
  }

  /** Metres to pixels: the whole path fits, at least 30 m ahead. */
  frame(width, height) {
    const all = [[0, 0], ...this.path, ...this.truth, ...this.rollouts.flat()].filter((p) => p.every((v) => Math.abs(v) < 1e4));
    const ahead = Math.max(30, ...all.map((p) => p[0])) + 5;
    const behind = Math.max(8, ...all.map((p) => -p[0])) + 3;
    const side = Math.max(10, ...all.map((p) => Math.abs(p[1]))) + 4;
    const scale = Math.min(height / (ahead + behind), width / (2 * side));
    return { scale, at: ([x, y]) => [width / 2 - y * scale, height - behind * scale - x * scale] };
  }

  draw() {
    const { c, width, height } = begin(this.canvas);
    const { scale, at } = this.frame(width, height);
    this.drawRoads(c, at);
    this.drawRings(c, at, scale, width);
    for (const agent of this.agents) this.drawBox(c, at, agent, colour("agent"));
    c.lineJoin = c.lineCap = "round";
    const line = (points, style, thick) => {
      if (!points.length) return;
      c.strokeStyle = style;
      c.lineWidth = thick;
      polyline(c, [[0, 0], ...points].map(at));
      c.stroke();
    };
    for (const rollout of this.rollouts) line(rollout, colour("spread"), 3);
    line(this.history.slice().reverse(), colour("dim"), 1.5);
    line(this.truth, colour("truth"), 2);
    line(this.path, colour("plan"), 2.5);
    this.drawBox(c, at, { x: 1.4, y: 0, heading_rad: 0, length_m: 4.6, width_m: 1.9 }, colour("bright"));
    c.fillStyle = colour("plan");
    for (const p of this.waypoints) {
      const [x, y] = at(p);
      c.beginPath();
      c.arc(x, y, 3.5, 0, 7);
      c.fill();
    }
  }

  drawRoads(c, at) {
    c.fillStyle = colour("road");
    for (const road of this.roads) {
      polyline(c, road.map(at));
      c.closePath();
      c.fill();
    }
  }

  /** Distances straight ahead, labelled at the left edge where nothing else is drawn. */
  drawRings(c, at, scale, width) {
    const step = roundUp(45 / scale);
    const [x0, y0] = at([0, 0]);
    c.lineWidth = 0.7;
    for (let r = step; y0 - r * scale > 4; r += step) {
      const y = y0 - r * scale;
      c.strokeStyle = colour("line");
      c.beginPath();
      c.arc(x0, y0, r * scale, -Math.PI / 2 - 0.9, -Math.PI / 2 + 0.9);
      c.stroke();
      c.fillStyle = colour("dim");
      c.fillText(`${r} m`, 0, Math.min(y0, y + r * scale * (1 - Math.cos(Math.min(0.9, Math.asin(Math.min(1, (x0 - 34) / (r * scale))))))));
    }
  }

  drawBox(c, at, agent, style) {
    const cos = Math.cos(agent.heading_rad);
    const sin = Math.sin(agent.heading_rad);
    const l = agent.length_m / 2;
    const w = agent.width_m / 2;
    const corners = [[l, w], [l, -w], [-l, -w], [-l, w]].map(([a, b]) => at([agent.x + a * cos - b * sin, agent.y + a * sin + b * cos]));
    polyline(c, corners);
    c.closePath();
    c.fillStyle = style;
    c.globalAlpha = 0.85;
    c.fill();
    c.globalAlpha = 1;
  }
}
