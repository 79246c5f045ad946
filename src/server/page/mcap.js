// SPDX-License-Identifier: Apache-2.0
// One answer as an MCAP file (https://mcap.dev/spec), without chunks or compression: Foxglove, Lichtblick and Rerun read it. Messages are JSON
// in Foxglove's schemas where there is one.

const MAGIC = [0x89, 0x4d, 0x43, 0x41, 0x50, 0x30, 0x0d, 0x0a];
const OP = { header: 0x01, footer: 0x02, schema: 0x03, channel: 0x04, message: 0x05, dataEnd: 0x0f };

class Bytes {
  constructor() {
    this.parts = [];
  }
  raw(bytes) {
    this.parts.push(Uint8Array.from(bytes));
    return this;
  }
  number(value, size) {
    const view = new DataView(new ArrayBuffer(size));
    if (size === 8) view.setBigUint64(0, BigInt(value), true);
    else if (size === 4) view.setUint32(0, value, true);
    else if (size === 2) view.setUint16(0, value, true);
    else view.setUint8(0, value);
    this.parts.push(new Uint8Array(view.buffer));
    return this;
  }
  text(value) {
    const bytes = new TextEncoder().encode(value);
    this.number(bytes.length, 4).parts.push(bytes);
    return this;
  }
  blob(bytes) {
    this.number(bytes.length, 4).parts.push(bytes);
    return this;
  }
  record(op, content) {
    const body = content.joined();
    this.number(op, 1).number(body.length, 8).parts.push(body);
    return this;
  }
  joined() {
    const out = new Uint8Array(this.parts.reduce((n, p) => n + p.length, 0));
    let at = 0;
    for (const part of this.parts) {
      out.set(part, at);
      at += part.length;
    }
    return out;
  }
}

const object = (properties) => JSON.stringify({ type: "object", properties });
const TIME = { type: "object", properties: { sec: { type: "integer" }, nsec: { type: "integer" } } };
const SCHEMAS = {
  "foxglove.CompressedImage": object({ timestamp: TIME, frame_id: { type: "string" }, data: { type: "string", contentEncoding: "base64" }, format: { type: "string" } }),
  "foxglove.SceneUpdate": object({ deletions: { type: "array" }, entities: { type: "array" } }),
  "foxglove.Log": object({ timestamp: TIME, level: { type: "integer" }, message: { type: "string" }, name: { type: "string" } }),
  "slipstream.Pass": object({ rows: { type: "integer" }, kept: { type: "integer" }, dropped: { type: "integer" }, ms: { type: "number" } }),
};

const time = (ns) => ({ sec: Number(ns / 1000000000n), nsec: Number(ns % 1000000000n) });

function line(id, points, colour, ns) {
  return {
    id,
    timestamp: time(ns),
    frame_id: "ego",
    lifetime: { sec: 0, nsec: 0 },
    frame_locked: true,
    metadata: [],
    arrows: [], cubes: [], spheres: [], cylinders: [], triangles: [], texts: [], models: [],
    lines: [{
      type: 0,
      pose: { position: { x: 0, y: 0, z: 0 }, orientation: { x: 0, y: 0, z: 0, w: 1 } },
      thickness: 0.25, scale_invariant: false,
      points: [[0, 0], ...points].map(([x, y]) => ({ x, y, z: 0.1 })),
      color: colour, colors: [], indices: [],
    }],
  };
}

/** `run`: {began (ms since 1970), images, path, truth, rollouts, fields: [{name, value, ms}], passes: [{to, rows, kept, dropped}]}. */
export function mcap(run) {
  const out = new Bytes().raw(MAGIC);
  out.record(OP.header, new Bytes().text("").text("slipstream"));
  const schemaIds = new Map();
  const channels = new Map();
  const channel = (topic, schema) => {
    if (channels.has(topic)) return channels.get(topic);
    if (!schemaIds.has(schema)) {
      schemaIds.set(schema, schemaIds.size + 1);
      out.record(OP.schema, new Bytes().number(schemaIds.get(schema), 2).text(schema).text("jsonschema").blob(new TextEncoder().encode(SCHEMAS[schema])));
    }
    const id = channels.size;
    channels.set(topic, id);
    out.record(OP.channel, new Bytes().number(id, 2).number(schemaIds.get(schema), 2).text(topic).text("json").number(0, 4));
    return id;
  };
  let sequence = 0;
  const say = (topic, schema, ms, content) => {
    const ns = BigInt(Math.round((run.began + ms) * 1000)) * 1000n;
    const id = channel(topic, schema);
    const body = new TextEncoder().encode(JSON.stringify(content(ns)));
    const head = new Bytes().number(id, 2).number(sequence++, 4).number(ns, 8).number(ns, 8);
    out.record(OP.message, head.raw(body));
  };
  run.images.forEach((url, i) => {
    const [, format, data] = /^data:image\/(\w+);base64,(.*)$/s.exec(url) ?? [];
    if (data) say(`/camera/${i}`, "foxglove.CompressedImage", 0, (ns) => ({ timestamp: time(ns), frame_id: `camera_${i}`, data, format }));
  });
  for (const f of run.fields)
    say("/answer", "foxglove.Log", f.ms, (ns) => ({ timestamp: time(ns), level: 2, message: `${f.name}: ${JSON.stringify(f.value)}`, name: f.name }));
  for (const p of run.passes) say("/passes", "slipstream.Pass", p.to, () => ({ rows: p.rows, kept: p.kept, dropped: p.dropped, ms: p.to - p.from }));
  const end = Math.max(0, ...run.passes.map((p) => p.to));
  const entities = (ns) => {
    const all = [];
    if (run.path.length) all.push(line("plan", run.path, { r: 0.04, g: 0.53, b: 0.68, a: 1 }, ns));
    (run.rollouts ?? []).forEach((r, i) => all.push(line(`rollout ${i}`, r, { r: 0.04, g: 0.53, b: 0.68, a: 0.35 }, ns)));
    if (run.truth.length) all.push(line("expert", run.truth, { r: 0.7, g: 0.42, b: 0, a: 1 }, ns));
    return all;
  };
  say("/plan", "foxglove.SceneUpdate", end, (ns) => ({ deletions: [], entities: entities(ns) }));
  out.record(OP.dataEnd, new Bytes().number(0, 4));
  out.record(OP.footer, new Bytes().number(0, 8).number(0, 8).number(0, 4));
  return out.raw(MAGIC).joined();
}
