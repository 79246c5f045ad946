// SPDX-License-Identifier: Apache-2.0
// The form as a list by section: every field waits, is open (all its parents are decided) or is decided.

const FRESH_MS = 700;

function words(value) {
  if (value === null || value === undefined) return "none";
  return typeof value === "string" ? value : JSON.stringify(value);
}

const isNothing = (value) => value === null || value === undefined || value === "" || /^(n\/a|none)$/i.test(value);

export class Fields {
  /** `onPoint(name | null)`: a field is pointed at, by mouse or arrow keys. */
  constructor(holder, onPoint = () => {}) {
    this.holder = holder;
    this.onPoint = onPoint;
    this.start([]);
    holder.addEventListener("keydown", (e) => this.key(e));
    holder.addEventListener("mouseleave", () => onPoint(null));
    holder.addEventListener("blur", () => onPoint(null));
  }

  key(e) {
    const by = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!by || !this.fields.length) return;
    e.preventDefault();
    const at = this.fields.findIndex((f) => f.name === this.here);
    const next = this.fields[Math.max(0, Math.min(this.fields.length - 1, at + by))];
    this.rows.get(next.name).row.scrollIntoView({ block: "nearest" });
    this.onPoint(next.name);
  }

  /** `near`: the fields that it depends on. */
  point(name, near = new Set()) {
    this.here = name;
    for (const [n, { row }] of this.rows) {
      row.classList.toggle("here", n === name);
      row.classList.toggle("parent", n !== name && near.has(n));
    }
  }

  /** `fields`: [{name, section, parents}], none: free text or a form that is not known. */
  start(fields) {
    this.fields = fields;
    this.rows = new Map();
    this.done = new Map();
    const parts = [];
    let section = null;
    for (const field of fields) {
      if (field.section && field.section !== section) {
        section = field.section;
        const title = document.createElement("p");
        title.className = "section-name";
        title.textContent = section;
        parts.push(title);
      }
      parts.push(this.row(field.name, field.section));
    }
    this.holder.replaceChildren(...parts);
    this.mark();
  }

  /** Under its section's title a field is called without it. */
  row(name, section) {
    const row = document.createElement("div");
    const label = document.createElement("span");
    const value = document.createElement("span");
    label.className = "name";
    label.title = name;
    label.textContent = section && name.startsWith(`${section}.`) ? name.slice(section.length + 1) : name;
    value.className = "value";
    row.append(label, value);
    row.setAttribute("role", "listitem");
    row.addEventListener("mouseenter", () => this.onPoint(name));
    this.rows.set(name, { row, value });
    return row;
  }

  isOpen(field) {
    return !this.done.has(field.name) && (field.parents ?? []).every((p) => this.done.has(p));
  }

  mark() {
    for (const field of this.fields) {
      const at = this.rows.get(field.name);
      const state = this.done.has(field.name) ? "done" : this.isOpen(field) ? "open" : "waiting";
      const nothing = state === "done" && isNothing(this.done.get(field.name));
      at.row.className = `field ${state}${at.fresh ? " fresh" : ""}${nothing ? " nothing" : ""}`;
    }
  }

  decide(name, value) {
    if (!this.rows.has(name)) {
      this.fields.push({ name, parents: [] });
      this.holder.append(this.row(name));
    }
    const at = this.rows.get(name);
    this.done.set(name, value);
    at.value.textContent = words(value);
    at.fresh = true;
    setTimeout(() => {
      at.fresh = false;
      at.row.classList.remove("fresh");
    }, FRESH_MS);
    this.mark();
  }

  text(text) {
    if (this.fields.length) return;
    if (!this.free) {
      this.free = document.createElement("p");
      this.free.style.whiteSpace = "pre-wrap";
      this.holder.replaceChildren(this.free);
    }
    this.free.textContent = text;
  }

  /** Free text begins anew. */
  clearText() {
    this.free = null;
  }
}
