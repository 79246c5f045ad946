// SPDX-License-Identifier: Apache-2.0
// What the canvases share: a context in CSS pixels on any screen, and the theme's colours.

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

/** The context of a canvas that is as fine as the screen, cleared; sizes are CSS pixels. */
export function begin(canvas) {
  const { width, height } = canvas.getBoundingClientRect();
  const ratio = window.devicePixelRatio || 1;
  const w = Math.max(1, Math.round(width * ratio));
  const h = Math.max(1, Math.round(height * ratio));
  if (canvas.width !== w || canvas.height !== h) [canvas.width, canvas.height] = [w, h];
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, width, height);
  c.font = '11px system-ui, "DejaVu Sans", sans-serif';
  c.textBaseline = "middle";
  return { c, width, height };
}

export function polyline(c, points) {
  c.beginPath();
  points.forEach(([x, y], i) => (i ? c.lineTo(x, y) : c.moveTo(x, y)));
}

/** Round numbers from 0 up to `end`, about `n` of them. */
export function ticks(end, n) {
  const step = roundUp(end / n);
  return Array.from({ length: Math.floor(end / step + 1e-9) + 1 }, (_, i) => Number((i * step).toPrecision(12)));
}

/** A round number of the size of `x` or above: 1, 2 or 5 times a power of ten. */
export function roundUp(x) {
  const power = 10 ** Math.floor(Math.log10(Math.max(x, 1e-9)));
  return [1, 2, 5, 10].map((m) => m * power).find((v) => v >= x);
}
