// One panel: an expression, its times, its answer. Runs one query at a time; a newer one ends it. Knows its parts. Doesn't
// know other panels, nor the address.
import { make, plain } from './dom.js';
import { ApiError, askExemplars, askInstant, askParse, askRange } from './api.js';
import { EXEMPLARS_MAX, TABLE_ROWS_MAX, exemplarsOf, linesOf, notesOf, seriesLimit } from './result.js';
import { Controls } from './controls.js';
import { Editor } from './editor.js';
import { Graph } from './graph.js';
import { Legend } from './legend.js';
import { tableOf } from './table.js';
import { durationText, stepFor, whenText } from './time.js';

// How long nothing is typed before the expression is checked.
const CHECK_AFTER_MS = 500;
const count = (number, one, many) => `${number.toLocaleString('en')} ${number === 1 ? one : many}`;

export class Panel {
  constructor(state, { onRun, onRemove }) {
    Object.assign(this, { state, onRun, running: null, checking: null, timer: 0 });
    this.editor = new Editor({ value: state.expr, onRun: () => this.run(), onChange: () => this.edited(), onEscape: () => this.cancel() });
    this.button = make('button', { type: 'button', className: 'run', onclick: () => this.running ? this.cancel() : this.run() });
    this.fault = make('p', { className: 'fault', role: 'alert', hidden: true });
    this.controls = new Controls(state, () => this.run());
    this.facts = make('p', { className: 'facts', role: 'status' }, make('span'), make('span'));
    this.notes = make('div');
    this.result = make('div', { className: 'result' });
    this.graph = new Graph((start, end) => this.zoom(start, end));
    this.legend = new Legend((hidden) => this.graph.setHidden(hidden));
    const remove = make('button', { type: 'button', className: 'remove', textContent: '×', title: 'Remove this panel', 'aria-label': 'Remove this panel', onclick: () => onRemove(this) });
    this.element = make('section', { className: 'panel', 'aria-label': 'Panel' },
      make('div', { className: 'ask' }, this.editor.element, this.button, remove),
      this.fault, this.controls.element, this.facts, this.notes, this.result);
    this.showBusy();
    this.blank('Nothing is asked yet.');
  }

  get isEmpty() { return this.editor.value.trim() === ''; }

  // --- the expression, while it is written ---

  edited() {
    this.showFault(null);
    clearTimeout(this.timer);
    this.checking?.abort();
    this.timer = setTimeout(() => this.check(), CHECK_AFTER_MS);
  }

  async check() {
    if (this.isEmpty || this.running) return;
    const checking = this.checking = new AbortController();
    try {
      await askParse(this.editor.value, checking.signal);
    } catch (error) {
      // A node that doesn't answer is reported when the expression runs.
      if (this.checking === checking && error instanceof ApiError && error.place) this.showFault(error);
    }
  }

  showFault(error) {
    this.fault.hidden = error === null;
    this.editor.setError(error?.place ?? null, error !== null);
    if (error === null) return;
    const { place } = error;
    this.fault.replaceChildren(...(place ? [make('b', { textContent: `${place.line}:${place.column}` })] : []), plain(error.message));
  }

  // --- a run ---

  cancel() {
    this.running?.abort();
  }

  async run() {
    this.cancel();
    this.checking?.abort();
    clearTimeout(this.timer);
    this.state.expr = this.editor.value;
    this.onRun();
    if (this.isEmpty) {
      this.running = null;
      this.showBusy();
      this.showFault(null);
      return this.blank('Write an expression first.');
    }
    const running = this.running = new AbortController(), began = performance.now();
    this.showBusy();
    try {
      await (this.state.tab === 'graph' ? this.runGraph(running.signal, began) : this.runTable(running.signal, began));
      if (this.running === running) this.showFault(null);
    } catch (error) {
      if (this.running === running) this.failed(error, running.signal);
    }
    if (this.running !== running) return;
    this.running = null;
    this.showBusy();
  }

  failed(error, signal) {
    this.notes.replaceChildren();
    if (signal.aborted) {
      this.showFault(null);
      return this.blank('Cancelled.');
    }
    this.blank('');
    if (!(error instanceof ApiError)) console.error(error);
    const isNetwork = error instanceof TypeError && !('place' in error) && /fetch|network/i.test(error.message);
    this.showFault(isNetwork ? new ApiError('The node doesn’t answer.') : error);
  }

  showBusy() {
    const isBusy = this.running !== null;
    this.button.textContent = isBusy ? 'Cancel' : 'Run';
    this.button.classList.toggle('busy', isBusy);
    this.result.classList.toggle('old', isBusy);
    this.element.setAttribute('aria-busy', String(isBusy));
  }

  async runGraph(signal, began) {
    const { expr, rangeMs, exemplars } = this.state;
    const endMs = this.state.endMs ?? Date.now(), startMs = endMs - rangeMs, stepMs = this.state.stepMs ?? stepFor(rangeMs);
    const limit = seriesLimit(Math.floor(rangeMs / stepMs) + 1);
    const answer = await askRange(expr, { startMs, endMs, stepMs, limit }, signal);
    const { lines, histograms } = linesOf(answer.data), took = performance.now() - began;
    signal.throwIfAborted();
    this.showNotes(answer, `The first ${count(limit, 'series', 'series')} of more: aggregate, or narrow the selector, to see all.`);
    if (histograms > 0) this.note(`${count(histograms, 'series has', 'series have')} native histograms: they are in the table, and histogram_quantile() draws them.`);
    this.tellFacts(`${count(answer.data.result.length, 'series', 'series')} · step ${durationText(stepMs)}`, took);
    if (lines.length === 0) return this.blank(histograms > 0 ? 'No floats to draw.' : 'No series in this time.');
    this.legend.show(lines);
    this.graph.show({ series: lines, start: startMs, end: endMs, step: stepMs, exemplars: [] });
    this.result.replaceChildren(this.graph.element, this.legend.element);
    if (exemplars) await this.addExemplars(expr, { startMs, endMs }, signal);
  }

  async addExemplars(expr, times, signal) {
    try {
      const { exemplars, all } = exemplarsOf((await askExemplars(expr, times, signal)).data);
      this.graph.setExemplars(exemplars);
      if (all === 0) this.note('There are no exemplars of these series in this time.');
      if (exemplars.length < all) this.note(`${count(exemplars.length, 'exemplar', 'exemplars')} of ${count(all, '', '').trim()} are drawn, at most ${EXEMPLARS_MAX.toLocaleString('en')}.`);
    } catch (error) {
      signal.throwIfAborted();
      this.note(`No exemplars: ${error.message}`, true);
    }
  }

  async runTable(signal, began) {
    const atMs = this.state.endMs ?? Date.now();
    const answer = await askInstant(this.state.expr, { atMs, limit: TABLE_ROWS_MAX }, signal), took = performance.now() - began;
    this.showNotes(answer, `The first ${count(TABLE_ROWS_MAX, 'series', 'series')} of more: aggregate, or narrow the selector, to see all.`);
    const { resultType, result } = answer.data, rows = ['scalar', 'string'].includes(resultType) ? 1 : result.length;
    this.tellFacts(`${count(rows, 'row', 'rows')} · ${whenText(atMs)}`, took);
    if (rows === 0) return this.blank('No series at this time.');
    this.result.replaceChildren(tableOf(answer.data));
  }

  zoom(start, end) {
    const rangeMs = Math.max(Math.round((end - start) / 1000), 1) * 1000;
    this.controls.set({ rangeMs, endMs: Math.round(end / 1000) * 1000 });
  }

  // --- what is shown ---

  showNotes(answer, truncated) {
    const { isTruncated, warnings, infos } = notesOf(answer);
    this.notes.replaceChildren();
    if (isTruncated) this.note(truncated, true);
    warnings.forEach((words) => this.note(words, true));
    infos.forEach((words) => this.note(words));
  }

  note(words, isWarning = false) {
    this.notes.append(make('p', { className: isWarning ? 'note warm' : 'note', textContent: plain(words) }));
  }

  tellFacts(words, tookMs) {
    const [left, right] = this.facts.children;
    left.textContent = words;
    right.textContent = `${Math.round(tookMs).toLocaleString('en')} ms`;
  }

  blank(words) {
    if (words !== 'No series in this time.' && words !== 'No series at this time.' && words !== 'No floats to draw.') this.facts.childNodes.forEach((part) => { part.textContent = ''; });
    this.result.replaceChildren(make('p', { className: 'blank', textContent: words }));
  }

  recolour() {
    this.legend.colour();
    if (this.graph.data) this.graph.redraw();
  }
}
