// Graph or table, and the times of a panel: range, end, step, exemplars. Knows their fields and what a person may write
// there. Doesn't know what is asked.
import { make } from './dom.js';
import { durationText, localInput, nextRange, parseDuration, parseLocalInput, stepFor } from './time.js';

export class Controls {
  // `state` is the panel's, and is changed here; `onChange` then runs it.
  constructor(state, onChange) {
    Object.assign(this, { state, onChange });
    const button = (label, text, onclick, className = '') => make('button', { type: 'button', 'aria-label': label, title: label, textContent: text, className, onclick });
    this.tabs = ['graph', 'table'].map((tab) => make('button', { type: 'button', role: 'tab', textContent: tab === 'graph' ? 'Graph' : 'Table', onclick: () => this.set({ tab }) }));
    this.range = make('input', { 'aria-label': 'Range', spellcheck: false, onchange: () => this.takeRange(), onkeydown: (event) => this.enter(event) });
    this.end = make('input', { type: 'datetime-local', step: 1, 'aria-label': 'End', onchange: () => this.takeEnd() });
    this.now = button('End now', 'now', () => this.set({ endMs: null }), 'word');
    this.step = make('input', { 'aria-label': 'Step', spellcheck: false, onchange: () => this.takeStep(), onkeydown: (event) => this.enter(event) });
    this.exemplars = make('input', { type: 'checkbox', onchange: () => this.set({ exemplars: this.exemplars.checked }) });
    this.rangeField = field('Range', button('Shorter range', '−', () => this.goRange(-1)), this.range, button('Longer range', '+', () => this.goRange(1)));
    this.endField = field('End', button('Earlier', '‹', () => this.shift(-1)), this.end, this.now, button('Later', '›', () => this.shift(1)));
    this.stepField = field('Step', this.step);
    this.check = make('label', { className: 'check' }, this.exemplars, 'Exemplars');
    this.element = make('div', { className: 'controls' },
      make('div', { className: 'tabs', role: 'tablist' }, ...this.tabs),
      make('div', { className: 'times' }, this.rangeField, this.endField, this.stepField, this.check));
    this.show();
  }

  set(changes) {
    Object.assign(this.state, changes);
    this.show();
    this.onChange();
  }

  show() {
    const { tab, rangeMs, endMs, stepMs, exemplars } = this.state, isGraph = tab === 'graph';
    this.tabs.forEach((button, place) => button.setAttribute('aria-selected', String((place === 0) === isGraph)));
    for (const element of [this.rangeField, this.stepField, this.check]) element.hidden = !isGraph;
    this.endField.firstChild.textContent = isGraph ? 'End' : 'At';
    this.range.value = durationText(rangeMs);
    this.end.value = localInput(endMs ?? Date.now());
    this.end.classList.toggle('now', endMs === null);
    this.now.setAttribute('aria-pressed', String(endMs === null));
    this.step.value = stepMs === null ? '' : durationText(stepMs);
    this.step.placeholder = durationText(stepFor(rangeMs));
    this.exemplars.checked = exemplars;
    for (const input of [this.range, this.end, this.step]) input.parentElement.classList.remove('wrong');
  }

  // Takes what was written where it can be read, and else says so.
  take(input, value, name) {
    if (value === undefined) input.parentElement.classList.add('wrong');
    else if (this.state[name] !== value) this.set({ [name]: value });
    else this.show();
  }

  takeRange() { this.take(this.range, parseDuration(this.range.value) ?? undefined, 'rangeMs'); }
  takeStep() { this.take(this.step, this.step.value.trim() === '' ? null : parseDuration(this.step.value) ?? undefined, 'stepMs'); }
  takeEnd() { this.take(this.end, this.end.value === '' ? null : parseLocalInput(this.end.value) ?? undefined, 'endMs'); }
  enter(event) { if (event.key === 'Enter') event.target.blur(); }
  goRange(direction) { this.set({ rangeMs: nextRange(this.state.rangeMs, direction) }); }

  shift(direction) {
    const by = this.state.tab === 'graph' ? this.state.rangeMs / 2 : 5 * 6e4;
    const endMs = Math.round((this.state.endMs ?? Date.now()) + direction * by);
    this.set({ endMs: endMs >= Date.now() ? null : endMs });
  }
}

function field(name, ...parts) {
  return make('div', { className: 'field' }, make('span', { textContent: name }), make('div', { className: 'group' }, ...parts));
}
