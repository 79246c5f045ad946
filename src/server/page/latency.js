// SPDX-License-Identifier: Apache-2.0
// Milliseconds of the answers so far, and the deadline beside them.
import { begin, colour, ticks } from "./draw.js";

const MOST = 200;
const LEFT = 44;

export function quantile(values, q) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
}

export class Latency {
  constructor(canvas, note) {
    this.canvas = canvas;
    this.note = note;
    this.answers = [];
    this.deadline = 0;
  }

  add(ms, late) {
    this.answers.push({ ms, late });
    if (this.answers.length > MOST) this.answers.shift();
    const all = this.answers.map((a) => a.ms);
    const missed = this.answers.filter((a) => a.late).length;
    this.note.textContent = `p50 ${quantile(all, 0.5).toFixed(0)} ms, p99 ${quantile(all, 0.99).toFixed(0)} ms${missed ? `, ${missed} late` : ""}`;
    this.draw();
  }

  setDeadline(ms) {
    this.deadline = ms;
    this.draw();
  }

  draw() {
    const { c, width, height } = begin(this.canvas);
    if (!this.answers.length && !this.deadline) {
      c.fillStyle = colour("dim");
      c.fillText("Each answer is a point; a deadline is a line.", 0, 8);
      return;
    }
    const most = 1.08 * Math.max(this.deadline, ...this.answers.map((a) => a.ms));
    const y = (ms) => 6 + (height - 12) * (1 - ms / most);
    c.lineWidth = 1;
    for (const ms of ticks(most, Math.max(2, height / 28))) {
      c.strokeStyle = colour("rule");
      c.beginPath();
      c.moveTo(LEFT, y(ms));
      c.lineTo(width, y(ms));
      c.stroke();
      c.fillStyle = colour("dim");
      c.textAlign = "right";
      c.fillText(ms === 0 ? "0 ms" : `${ms}`, LEFT - 6, Math.min(height - 6, Math.max(6, y(ms))));
    }
    c.textAlign = "left";
    if (this.deadline) {
      c.strokeStyle = colour("dropped");
      c.setLineDash([5, 4]);
      c.beginPath();
      c.moveTo(LEFT, y(this.deadline));
      c.lineTo(width, y(this.deadline));
      c.stroke();
      c.setLineDash([]);
    }
    const step = Math.min(14, (width - LEFT - 6) / Math.max(1, this.answers.length));
    this.answers.forEach(({ ms, late }, i) => {
      c.fillStyle = colour(late ? "dropped" : "plan");
      c.beginPath();
      c.arc(LEFT + 4 + step * (i + 0.5), y(ms), 3, 0, 7);
      c.fill();
    });
  }
}
