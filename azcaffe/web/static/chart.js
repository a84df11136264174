// SPDX-License-Identifier: AGPL-3.0-or-later
// Line charts in SVG, drawn at the size they have on the page, with a cross-hair that reads the curves.

import { h, s } from "./dom.js";

const EDGE = { left: 46, right: 14, top: 12, bottom: 30 };

/** Round numbers between low and high, about `count` of them. */
export function ticks(low, high, count) {
  const rough = (high - low) / Math.max(1, count);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough);
  const first = Math.ceil(low / step - 1e-9) * step;
  const marks = [];
  for (let value = first; value <= high + step * 1e-6; value += step) marks.push(Math.abs(value) < step * 1e-6 ? 0 : value);
  return marks;
}

export function plain(value) {
  if (Math.abs(value) >= 1e6) return `${Number((value / 1e6).toPrecision(3))}M`;
  if (Math.abs(value) >= 1e4) return `${Number((value / 1e3).toPrecision(3))}k`;
  return String(Number(value.toPrecision(3))).replace("-", "−");
}

/** Texts of axis marks, all in the same unit. */
function labels(marks) {
  const largest = Math.max(...marks.map(Math.abs));
  const [unit, sign] = largest >= 1e6 ? [1e6, "M"] : largest >= 1e4 ? [1e3, "k"] : [1, ""];
  return marks.map((mark) => (mark === 0 ? "0" : `${plain(mark / unit)}${sign}`));
}

export class Chart {
  /** `options`: across, up (axis titles), low, high (fixed limits), zero (line at 0), onPick(x), label. */
  constructor(root, options) {
    this.root = root;
    this.options = options;
    this.series = [];
    this.cursor = null;
    this.readout = h("p", { class: "readout", "aria-hidden": "true" });
    this.picture = s("svg", { role: "img", class: "plot" });
    root.replaceChildren(this.picture, this.readout);
    new ResizeObserver(() => this.draw()).observe(root);
    this.picture.addEventListener("pointermove", (event) => this.read(event));
    this.picture.addEventListener("pointerleave", () => this.read(null));
    if (options.onPick) this.picture.addEventListener("click", (event) => this.pick(event));
  }

  /** series: [{name, class, x: [], y: [], steps, dots}]; cursor: an x to mark. */
  show(series, cursor = null) {
    this.series = series.map((one) => ({
      ...one,
      points: one.x.map((x, i) => [x, one.y[i]]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y)),
    }));
    this.cursor = cursor;
    this.draw();
  }

  draw() {
    const width = this.root.clientWidth;
    const height = this.options.height ?? 180;
    if (!width) return;
    this.width = width;
    this.height = height;
    const points = this.series.flatMap((one) => one.points);
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.picture.setAttribute("height", height);
    this.picture.setAttribute("aria-label", this.describe());
    const xs = points.map(([x]) => x);
    const ys = points.map(([, y]) => y);
    this.xRange = [this.options.left ?? Math.min(0, ...xs), Math.max(this.options.right ?? 1, ...xs)];
    const low = this.options.low ?? Math.min(0, ...ys);
    let high = this.options.high ?? Math.max(...ys, low + 1e-6) * 1.05;
    if (!Number.isFinite(high) || high <= low) high = low + 1;
    this.yRange = [low, high];
    this.hair = s("g", { class: "hair" });
    this.picture.replaceChildren(this.axes(), ...this.series.map((one) => this.line(one)), this.mark(), this.hair);
  }

  px(x) {
    const [low, high] = this.xRange;
    return EDGE.left + ((x - low) / (high - low || 1)) * (this.width - EDGE.left - EDGE.right);
  }

  py(y) {
    const [low, high] = this.yRange;
    return this.height - EDGE.bottom - ((y - low) / (high - low)) * (this.height - EDGE.top - EDGE.bottom);
  }

  axes() {
    const group = s("g", { class: "axes" });
    const ys = ticks(...this.yRange, 4);
    const yTexts = labels(ys);
    ys.forEach((y, at) => {
      group.append(s("line", { class: y === 0 && this.options.zero ? "zero" : "grid", x1: EDGE.left, x2: this.width - EDGE.right, y1: this.py(y), y2: this.py(y) }));
      group.append(s("text", { x: EDGE.left - 7, y: this.py(y) + 4, "text-anchor": "end" }, yTexts[at]));
    });
    const xs = ticks(...this.xRange, Math.max(2, Math.floor(this.width / 90))).filter((x) => !this.options.whole || Number.isInteger(x));
    const xTexts = labels(xs);
    xs.forEach((x, at) => {
      group.append(s("text", { x: this.px(x), y: this.height - EDGE.bottom + 15, "text-anchor": "middle" }, xTexts[at]));
    });
    group.append(s("text", { class: "title", x: this.width - EDGE.right, y: this.height - 2, "text-anchor": "end" }, this.options.across));
    return group;
  }

  line({ points, class: name, steps, dots }) {
    const parts = points.map(([x, y], i) => {
      const to = `${this.px(x).toFixed(1)} ${this.py(y).toFixed(1)}`;
      if (i === 0) return `M${to}`;
      return steps ? `H${this.px(x).toFixed(1)}V${this.py(y).toFixed(1)}` : `L${to}`;
    });
    const group = s("g", { class: `series ${name ?? ""}` }, s("path", { d: parts.join("") || "M0 0" }));
    if (dots || points.length === 1) {
      group.append(...points.map(([x, y]) => s("circle", { cx: this.px(x), cy: this.py(y), r: 3 })));
    }
    return group;
  }

  mark() {
    const group = s("g", { class: "cursor" });
    if (this.cursor !== null) {
      group.append(s("line", { x1: this.px(this.cursor), x2: this.px(this.cursor), y1: EDGE.top, y2: this.height - EDGE.bottom }));
    }
    return group;
  }

  at(event) {
    const box = this.picture.getBoundingClientRect();
    const share = (event.clientX - box.left - EDGE.left) / (this.width - EDGE.left - EDGE.right);
    return this.xRange[0] + Math.min(1, Math.max(0, share)) * (this.xRange[1] - this.xRange[0]);
  }

  read(event) {
    const first = this.series.find((one) => one.points.length);
    this.hair.replaceChildren();
    if (!event || !first) {
      this.readout.textContent = "";
      return;
    }
    const wanted = this.at(event);
    const texts = [];
    let where = null;
    for (const one of this.series.filter(({ points }) => points.length)) {
      const [x, y] = one.points.reduce((best, point) => (Math.abs(point[0] - wanted) < Math.abs(best[0] - wanted) ? point : best));
      where ??= x;
      texts.push(`${this.series.length > 1 ? `${one.name} ` : ""}${plain(y)}`);
      this.hair.append(s("circle", { cx: this.px(x), cy: this.py(y), r: 3.5 }));
    }
    this.hair.append(s("line", { x1: this.px(where), x2: this.px(where), y1: EDGE.top, y2: this.height - EDGE.bottom }));
    this.readout.textContent = `${texts.join(" · ")} at ${plain(where)}`;
  }

  pick(event) {
    this.options.onPick(Math.round(this.at(event)));
  }

  describe() {
    const parts = this.series.filter(({ points }) => points.length).map(({ name, points }) =>
      `${name}: from ${plain(points[0][1])} to ${plain(points.at(-1)[1])}`);
    return `${this.options.label}. ${parts.join("; ") || "No data yet"}. Horizontal: ${this.options.across}.`;
  }
}
