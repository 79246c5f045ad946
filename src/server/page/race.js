// SPDX-License-Identifier: Apache-2.0
// Three decoders on one request: who is done with what, and whether the answers are equal byte by byte.

export class Race {
  constructor(holder, badge) {
    this.holder = holder;
    this.badge = badge;
  }

  start(decoders) {
    this.badge.hidden = true;
    this.lanes = new Map();
    this.holder.replaceChildren(
      ...decoders.map((name) => {
        const lane = document.createElement("div");
        lane.className = "lane";
        const label = document.createElement("span");
        label.className = "who";
        label.textContent = name;
        const bar = document.createElement("div");
        bar.className = "bar";
        const fill = document.createElement("div");
        fill.className = "fill";
        bar.append(fill);
        const numbers = document.createElement("span");
        numbers.className = "numbers";
        lane.append(label, numbers, bar);
        this.lanes.set(name, { lane, fill, numbers, text: null, ms: Infinity, forwards: 0 });
        return lane;
      }),
    );
  }

  progress(name, share, ms, forwards) {
    const lane = this.lanes.get(name);
    lane.ms = ms;
    lane.forwards = forwards;
    lane.fill.style.width = `${Math.min(100, 100 * share)}%`;
    lane.numbers.textContent = `${forwards} passes, ${ms.toFixed(0)} ms`;
  }

  finish(name, text) {
    const lane = this.lanes.get(name);
    lane.fill.style.width = "100%";
    lane.text = text;
  }

  /** After the last: the badge. True where all answers are the same bytes. */
  judge() {
    const texts = [...this.lanes.values()].map((l) => l.text);
    const equal = texts.every((t) => t !== null && t === texts[0]);
    const slowest = Math.max(...[...this.lanes.values()].map((l) => l.ms));
    const quickest = Math.min(...[...this.lanes.values()].map((l) => l.ms));
    for (const l of this.lanes.values()) {
      l.fill.style.width = `${(100 * l.ms) / slowest}%`; // from progress to time: the shortest bar has won
      l.lane.classList.toggle("first", l.ms === quickest);
      l.numbers.textContent = `${l.forwards} passes, ${l.ms.toFixed(0)} ms, ${(slowest / l.ms).toFixed(1)}x`;
    }
    this.badge.hidden = false;
    this.badge.textContent = equal ? "equal bytes" : "DIFFERENT BYTES";
    this.badge.classList.toggle("differ", !equal);
    return equal;
  }
}
