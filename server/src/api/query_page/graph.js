// Series as lines on a canvas, and what is under the pointer. Lines are drawn on a layer of their own, redrawn only when the
// data, the size or the colours change; a pointer that moves costs one copy of it, once a frame.
// Knows points and pixels. Doesn't know what was asked.
import { make, plain } from './dom.js';
import { axisRange, marks, nearest, shown } from './numbers.js';
import { timeMarks, whenText } from './time.js';
import { pageColours, seriesColour } from './colours.js';

const FONT = '11.5px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';
const MARGIN = { top: 12, right: 14, bottom: 26, left: 10 };
// How far from a point it is still meant, and how far a drag goes at least, in pixels.
const NEAR_PX = 40, DRAG_PX = 8, DOT_NEAR_PX = 9, LABELS_SHOWN_MAX = 14;

export class Graph {
  // `onZoom` is given the times that were dragged over.
  constructor(onZoom) {
    Object.assign(this, { onZoom, data: null, hidden: new Set(), pointer: null, drag: null, isStale: true, frame: 0 });
    this.canvas = make('canvas', { role: 'img' });
    this.layer = document.createElement('canvas');
    this.tip = make('div', { className: 'tip', hidden: true });
    this.element = make('div', { className: 'graph' }, this.canvas, this.tip);
    new ResizeObserver(() => this.redraw()).observe(this.element);
    this.listen();
  }

  // `series`: each with `labels`, ascending `times` in ms and `values`; `exemplars`: each with `time`, `value`, `labels`.
  show(data) {
    this.data = data;
    this.hidden = new Set();
    this.canvas.setAttribute('aria-label', `Graph of ${data.series.length} series`);
    this.redraw();
  }

  setExemplars(exemplars) {
    this.data.exemplars = exemplars;
    this.redraw();
  }

  setHidden(hidden) {
    this.hidden = hidden;
    this.redraw();
  }

  redraw() {
    this.isStale = true;
    this.schedule();
  }

  // However often it is asked for: once a frame.
  schedule() {
    if (this.frame === 0) this.frame = requestAnimationFrame(() => this.paint());
  }

  // --- the layer ---

  paint() {
    this.frame = 0;
    const began = performance.now(), { clientWidth: width, clientHeight: height } = this.element;
    if (this.data === null || width === 0) return;
    if (this.isStale) {
      this.isStale = false;
      this.ratio = Math.min(devicePixelRatio || 1, 3);
      for (const one of [this.canvas, this.layer]) [one.width, one.height] = [Math.round(width * this.ratio), Math.round(height * this.ratio)];
      this.canvas.dataset.points = this.drawLayer(width, height);
      this.canvas.dataset.layerMs = (performance.now() - began).toFixed(2);
    }
    this.drawFrame();
    this.canvas.dataset.frames = Number(this.canvas.dataset.frames ?? 0) + 1;
    this.canvas.dataset.frameMs = (performance.now() - began).toFixed(2);
  }

  drawLayer(width, height) {
    const context = this.layer.getContext('2d'), colours = this.colours = pageColours(this.element);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = FONT;
    const plot = this.plot = this.plotOf(context, width, height);
    this.drawAxes(context, plot, colours);
    context.save();
    context.beginPath();
    context.rect(plot.left, plot.top - 2, plot.right - plot.left, plot.bottom - plot.top + 4);
    context.clip();
    this.paths = new Map();
    const drawn = this.data.series.reduce((sum, series, place) => sum + (this.hidden.has(place) ? 0 : this.drawSeries(context, series, place)), 0);
    context.restore();
    this.drawExemplars(context, plot, colours);
    return drawn;
  }

  // Where the lines are, and how times and values become pixels.
  plotOf(context, width, height) {
    const [low, high] = this.valueRange(), { start, end } = this.data;
    const [top, bottom] = [MARGIN.top, height - MARGIN.bottom];
    const values = marks(low, high, Math.max(2, Math.floor((bottom - top) / 46)));
    const left = MARGIN.left + Math.max(24, ...values.map(({ text }) => context.measureText(text).width)) + 8;
    const right = width - MARGIN.right, span = Math.max(end - start, 1);
    return {
      left, right, top, bottom, width, height, values,
      x: (time) => left + (time - start) / span * (right - left),
      y: (value) => bottom - (value - low) / (high - low) * (bottom - top),
      time: (x) => start + (x - left) / (right - left) * span,
    };
  }

  valueRange() {
    let low = Infinity, high = -Infinity;
    this.data.series.forEach(({ values }, place) => {
      if (this.hidden.has(place)) return;
      for (const value of values) {
        if (!Number.isFinite(value)) continue;
        if (value < low) low = value;
        if (value > high) high = value;
      }
    });
    return axisRange(low, high);
  }

  drawAxes(context, plot, colours) {
    context.lineWidth = 1;
    context.strokeStyle = colours.line;
    context.fillStyle = colours.faint;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const { value, text } of plot.values) {
      const y = Math.round(plot.y(value)) + .5;
      this.line(context, plot.left, y, plot.right, y);
      context.fillText(text, plot.left - 8, y);
    }
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const { at, text } of timeMarks(this.data.start, this.data.end, Math.max(2, Math.floor((plot.right - plot.left) / 90)))) {
      const x = Math.round(plot.x(at)) + .5, half = context.measureText(text).width / 2;
      this.line(context, x, plot.bottom, x, plot.bottom + 4);
      if (x + half <= plot.width && x - half >= 0) context.fillText(text, x, plot.bottom + 8);
    }
    context.strokeStyle = colours.edge;
    this.line(context, plot.left, plot.bottom + .5, plot.right, plot.bottom + .5);
  }

  line(context, fromX, fromY, toX, toY) {
    context.beginPath();
    context.moveTo(fromX, fromY);
    context.lineTo(toX, toY);
    context.stroke();
  }

  // Points that it drew.
  drawSeries(context, { times, values }, place) {
    const { plot } = this, gap = this.data.step * 1.5, path = new Path2D();
    const places = shown(times, values, this.data.start, this.data.end, Math.ceil(plot.right - plot.left));
    let previous = -1, isAlone = false, drawn = 0;
    const dot = (i) => path.rect(plot.x(times[i]) - .75, plot.y(values[i]) - .75, 1.5, 1.5);
    for (const i of places) {
      if (!Number.isFinite(values[i])) { if (isAlone) dot(previous); previous = -1; isAlone = false; continue; }
      const isApart = previous < 0 || (i === previous + 1 && times[i] - times[previous] > gap);
      const [x, y] = [plot.x(times[i]), plot.y(values[i])];
      if (isApart) { if (isAlone) dot(previous); path.moveTo(x, y); } else path.lineTo(x, y);
      isAlone = isApart;
      previous = i;
      drawn++;
    }
    if (isAlone) dot(previous);
    this.paths.set(place, path);
    context.lineWidth = 1.5;
    context.lineJoin = 'round';
    context.strokeStyle = seriesColour(place);
    context.stroke(path);
    return drawn;
  }

  // What lies above or below the scale is drawn at its edge.
  drawExemplars(context, plot, colours) {
    this.dots = this.data.exemplars.map((exemplar) => ({
      exemplar,
      x: plot.x(exemplar.time),
      y: Math.min(Math.max(plot.y(exemplar.value), plot.top), plot.bottom),
    })).filter(({ x, y }) => x >= plot.left && x <= plot.right && Number.isFinite(y));
    for (const { x, y } of this.dots) this.diamond(context, x, y, 4, colours.warm, colours.card);
  }

  diamond(context, x, y, size, fill, edge) {
    context.beginPath();
    context.moveTo(x, y - size);
    context.lineTo(x + size, y);
    context.lineTo(x, y + size);
    context.lineTo(x - size, y);
    context.closePath();
    context.fillStyle = fill;
    context.strokeStyle = edge;
    context.lineWidth = 1;
    context.fill();
    context.stroke();
  }

  // --- what is under the pointer ---

  drawFrame() {
    const context = this.canvas.getContext('2d'), { plot, colours } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.drawImage(this.layer, 0, 0);
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    if (this.drag && this.pointer) {
      const [from, to] = [this.drag.x, this.pointer.x].map((x) => Math.min(Math.max(x, plot.left), plot.right)).sort((a, b) => a - b);
      context.fillStyle = colours.soft;
      context.fillRect(from, plot.top, to - from, plot.bottom - plot.top);
    }
    const meant = this.drag || !this.pointer ? null : this.dotAt(this.pointer) ?? this.pointAt(this.pointer);
    if (meant?.exemplar) this.diamond(context, meant.x, meant.y, 6, colours.warm, colours.text);
    else if (meant) this.drawMeant(context, meant);
    this.showTip(meant);
  }

  drawMeant(context, { x, y, place }) {
    const { plot, colours } = this;
    context.lineWidth = 1;
    context.strokeStyle = colours.edge;
    this.line(context, Math.round(x) + .5, plot.top, Math.round(x) + .5, plot.bottom);
    context.strokeStyle = context.fillStyle = seriesColour(place);
    context.lineWidth = 2.5;
    context.stroke(this.paths.get(place));
    context.beginPath();
    context.arc(x, y, 4, 0, 2 * Math.PI);
    context.fill();
    context.strokeStyle = colours.card;
    context.lineWidth = 1.5;
    context.stroke();
  }

  dotAt({ x, y }) {
    const near = this.dots.map((dot) => ({ ...dot, apart: Math.hypot(dot.x - x, dot.y - y) })).filter(({ apart }) => apart <= DOT_NEAR_PX);
    return near.sort((a, b) => a.apart - b.apart)[0] ?? null;
  }

  // Of each series the point nearest in time, by halving; of these the one nearest to the pointer.
  pointAt({ x, y }) {
    const { plot } = this, at = plot.time(x);
    let found = null;
    this.data.series.forEach(({ times, values }, place) => {
      const i = this.hidden.has(place) ? -1 : nearest(times, at);
      if (i < 0 || !Number.isFinite(values[i]) || Math.abs(plot.x(times[i]) - x) > NEAR_PX) return;
      const apart = Math.abs(plot.y(values[i]) - y);
      if (found === null || apart < found.apart) found = { apart, place, x: plot.x(times[i]), y: plot.y(values[i]), time: times[i], value: values[i] };
    });
    return found;
  }

  showTip(meant) {
    this.tip.hidden = meant === null;
    if (meant === null) return;
    const { exemplar, place } = meant;
    const swatch = make('i', { className: exemplar ? 'swatch dot' : 'swatch' });
    swatch.style.background = exemplar ? this.colours.warm : seriesColour(place);
    const labels = exemplar ? { ...exemplar.labels, ...exemplar.seriesLabels } : this.data.series[place].labels;
    const entries = Object.entries(labels).slice(0, LABELS_SHOWN_MAX);
    this.tip.replaceChildren(
      make('div', { className: 'when', textContent: `${exemplar ? 'Exemplar · ' : ''}${whenText(exemplar?.time ?? meant.time)}` }),
      make('div', { className: 'value' }, swatch, String(exemplar?.value ?? meant.value)),
      make('div', { className: 'labels' }, ...entries.flatMap(([name, value]) => [make('span', { textContent: plain(name === '__name__' ? 'metric' : name) }), make('span', { textContent: plain(value) })])),
    );
    const { offsetWidth: width, offsetHeight: height } = this.tip, room = this.element;
    const isLeft = meant.x + 16 + width > room.clientWidth;
    const left = isLeft ? Math.max(meant.x - 16 - width, 0) : meant.x + 16;
    const top = Math.min(Math.max(meant.y - height / 2, 0), Math.max(room.clientHeight - height, 0));
    this.tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
  }

  listen() {
    const { canvas } = this;
    const placeOf = (event) => {
      const box = canvas.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    canvas.addEventListener('pointermove', (event) => { this.pointer = placeOf(event); this.schedule(); });
    canvas.addEventListener('pointerleave', () => { this.pointer = null; this.schedule(); });
    canvas.addEventListener('pointerdown', (event) => {
      if (event.pointerType !== 'mouse' || event.button !== 0 || !this.plot) return;
      canvas.setPointerCapture(event.pointerId);
      this.drag = placeOf(event);
    });
    canvas.addEventListener('pointercancel', () => { this.drag = null; this.schedule(); });
    canvas.addEventListener('pointerup', (event) => {
      const [from, to] = [this.drag?.x, placeOf(event).x].sort((a, b) => a - b), wasDragged = this.drag !== null;
      this.drag = null;
      this.schedule();
      if (wasDragged && to - from >= DRAG_PX) this.onZoom(this.plot.time(Math.max(from, this.plot.left)), this.plot.time(Math.min(to, this.plot.right)));
    });
  }
}
