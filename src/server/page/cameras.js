// SPDX-License-Identifier: Apache-2.0
// The pictures, and over them the planned path where the camera is known. Positions are metres in the ego frame: x forward, y to the left,
// the ground at height 0.
import { begin, colour } from "./draw.js";

const HALF_LANE = 0.9;

/** Pixel (of the picture) of a point on the ground, or null behind the camera: a pinhole at height_m, turned by yaw, then pitch. */
export function project(camera, x, y) {
  const dx = x - camera.forward_m;
  const cos = Math.cos(camera.yaw_rad);
  const sin = Math.sin(camera.yaw_rad);
  const ahead = dx * cos + y * sin;
  const right = dx * sin - y * cos;
  const up = -camera.height_m;
  const cp = Math.cos(camera.pitch_rad);
  const sp = Math.sin(camera.pitch_rad);
  const depth = ahead * cp + up * sp;
  const lift = up * cp - ahead * sp;
  if (depth < 0.5) return null;
  const focal = camera.width / 2 / Math.tan(camera.fov_rad / 2);
  return [camera.width / 2 + (focal * right) / depth, camera.height / 2 - (focal * lift) / depth];
}

/** The path at every half metre, with the unit vector to its left. */
export function samples(points) {
  const path = [[0, 0], ...points];
  const out = [];
  for (let i = 0; i + 1 < path.length; i++) {
    const [x0, y0] = path[i];
    const [x1, y1] = path[i + 1];
    const length = Math.hypot(x1 - x0, y1 - y0);
    if (length < 1e-6) continue;
    const n = Math.max(1, Math.ceil(length / 0.5));
    for (let k = 0; k < n; k++)
      out.push({ x: x0 + ((x1 - x0) * k) / n, y: y0 + ((y1 - y0) * k) / n, lx: -(y1 - y0) / length, ly: (x1 - x0) / length });
  }
  return out;
}

function drawPath(c, camera, points, scale, left, top) {
  const place = (x, y) => {
    const p = project(camera, x, y);
    return p && [left + p[0] * scale, top + p[1] * scale];
  };
  const along = samples(points);
  c.fillStyle = colour("plan");
  for (let i = 0; i + 1 < along.length; i++) {
    const a = along[i];
    const b = along[i + 1];
    const corners = [
      place(a.x + a.lx * HALF_LANE, a.y + a.ly * HALF_LANE),
      place(b.x + b.lx * HALF_LANE, b.y + b.ly * HALF_LANE),
      place(b.x - b.lx * HALF_LANE, b.y - b.ly * HALF_LANE),
      place(a.x - a.lx * HALF_LANE, a.y - a.ly * HALF_LANE),
    ];
    if (corners.some((p) => !p)) continue;
    c.globalAlpha = 0.5 - (0.35 * i) / along.length;
    c.beginPath();
    corners.forEach(([x, y], k) => (k ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.fill();
  }
  c.globalAlpha = 1;
}

/** Data URLs as pictures that can be drawn. */
export const decoded = (urls) => Promise.all(urls.map(async (url) => createImageBitmap(await (await fetch(url)).blob())));

export class Cameras {
  constructor(holder) {
    this.holder = holder;
    this.pictures = [];
    this.cameras = [];
    this.path = [];
  }

  /** `pictures`: of decoded(); `cameras`: as the server describes them, fewer or none where they are not known. */
  show(pictures, cameras = []) {
    this.pictures = pictures;
    this.cameras = cameras;
    this.path = [];
    this.holder.replaceChildren(...this.pictures.map(() => document.createElement("canvas")));
    [...this.holder.children].forEach((canvas, i) => {
      canvas.style.aspectRatio = `${this.pictures[i].width} / ${this.pictures[i].height}`;
      canvas.setAttribute("role", "img");
      canvas.setAttribute("aria-label", `camera ${this.cameras[i]?.name ?? i + 1}`);
    });
    this.draw();
  }

  setPath(path) {
    this.path = path;
    this.draw();
  }

  draw() {
    this.pictures.forEach((picture, i) => {
      const { c, width, height } = begin(this.holder.children[i]);
      const scale = Math.min(width / picture.width, height / picture.height);
      const left = (width - picture.width * scale) / 2;
      const top = (height - picture.height * scale) / 2;
      c.save();
      c.beginPath();
      c.roundRect(left, top, picture.width * scale, picture.height * scale, 6);
      c.clip();
      c.drawImage(picture, left, top, picture.width * scale, picture.height * scale);
      const camera = this.cameras[i];
      if (camera && this.path.length) drawPath(c, camera, this.path, (scale * picture.width) / camera.width, left, top);
      c.restore();
    });
  }
}
