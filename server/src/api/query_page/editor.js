// The field for an expression: a text with colours below it, the place of an error, and the completion. Knows text, caret
// and keys. Doesn't know what an expression gives.
import { make } from './dom.js';
import { tokensOf, placeOf } from './lexer.js';
import { CLAUSES, isCalled, isKeyword } from './language.js';
import { contextAt } from './context.js';
import { candidatesFor } from './candidates.js';
import { Completion } from './completion.js';

// A longer text has neither colours nor completion.
const COLOURED_MAX = 20000;

export class Editor {
  constructor({ value, onRun, onChange, onEscape }) {
    Object.assign(this, { onRun, onChange, onEscape, asked: 0, wrongAt: null });
    this.completion = new Completion((row) => this.take(row));
    this.layer = make('pre', { 'aria-hidden': 'true' });
    this.field = make('textarea', {
      value, rows: 1, spellcheck: false, autocapitalize: 'off', autocomplete: 'off', placeholder: 'Expression, such as sum by (job) (rate(requests_total[5m]))',
      role: 'combobox', 'aria-label': 'Expression', 'aria-autocomplete': 'list', 'aria-controls': this.completion.id, 'aria-expanded': 'false',
      oninput: () => this.changed(), onkeydown: (event) => this.key(event), onblur: () => this.close(),
      onclick: () => this.close(), onscroll: () => { this.layer.scrollTop = this.field.scrollTop; },
    });
    this.field.setAttribute('autocorrect', 'off');
    this.element = make('div', { className: 'editor' }, this.layer, this.field, this.completion.element);
    this.colour();
  }

  get value() { return this.field.value; }
  focus() { this.field.focus(); }

  changed() {
    this.wrongAt = null;
    this.colour();
    this.complete(false);
    this.onChange();
  }

  // Shows where an error is: `place` in lines and columns, or null where it is nowhere.
  setError(place, isWrong) {
    this.wrongAt = place && placeOf(this.value, place);
    this.element.classList.toggle('wrong', isWrong);
    this.field.setAttribute('aria-invalid', String(isWrong));
    this.colour();
  }

  // --- colours ---

  colour() {
    const text = this.value;
    const tokens = text.length > COLOURED_MAX ? [{ kind: 'other', start: 0, end: text.length, text }] : tokensOf(text);
    const depth = { '{': 0, clause: 0 };
    this.layer.replaceChildren(...tokens.map((token, place) => this.piece(token, kindOf(tokens, place, depth))));
    // At the end, where a text is missing, there is nothing to underline.
    if (this.wrongAt !== null && this.wrongAt >= text.length) this.layer.append(make('span', { className: 't-wrong', textContent: ' ' }));
    this.layer.append('\n');
    this.layer.scrollTop = this.field.scrollTop;
  }

  piece({ start, end, text }, kind) {
    const isWrong = this.wrongAt !== null && start <= this.wrongAt && this.wrongAt < end;
    return make('span', { className: `${kind ? `t-${kind}` : ''}${isWrong ? ' t-wrong' : ''}`, textContent: text });
  }

  // --- the completion ---

  async complete(isWanted) {
    const asked = ++this.asked, { value, selectionStart: caret, selectionEnd } = this.field;
    const context = value.length <= COLOURED_MAX && caret === selectionEnd ? contextAt(value, caret) : { kind: null };
    const isBegun = context.fragment || context.kind === 'label' || context.kind === 'value' || context.kind === 'duration';
    if (!context.kind || !(isWanted || isBegun)) return this.close();
    let rows = [];
    try {
      rows = await candidatesFor(context);
    } catch (error) {
      // Without names there is no completion; what is wrong with the expression, its run says.
      console.info(error);
    }
    if (asked !== this.asked) return;
    const isWritten = rows.length === 1 && rows[0].insert === context.fragment;
    if (rows.length === 0 || isWritten) return this.close();
    this.context = context;
    this.completion.show(rows, this.placeOfCaret(context.from), context.fragment);
    this.tell();
  }

  close() {
    this.asked++;
    this.completion.hide();
    this.tell();
  }

  tell() {
    this.field.setAttribute('aria-expanded', String(this.completion.isOpen));
    this.field.setAttribute('aria-activedescendant', this.completion.chosenId);
  }

  // Where a place in the text is drawn, within the field.
  placeOfCaret(at) {
    const box = this.element.getBoundingClientRect(), range = document.createRange();
    let left = at;
    const walker = document.createTreeWalker(this.layer, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (left < node.length) {
        range.setStart(node, left);
        range.setEnd(node, left + 1);
        break;
      }
      left -= node.length;
    }
    const [rect = box] = range.getClientRects();
    return { left: rect.left - box.left - 14, top: rect.bottom - box.top + 12, width: box.width };
  }

  take(row) {
    const { from, to, kind } = this.context;
    this.close();
    const next = this.value.slice(to);
    // What is there already isn't written twice; and after a label's name in a selector comes its value.
    let insert = row.insert;
    if (insert.endsWith('(') && /^\s*\(/.test(next)) insert = insert.slice(0, -1);
    if (kind === 'label' && this.isInSelector(from) && !/^\s*[=!]/.test(next)) insert += '="';
    this.field.focus();
    this.field.setSelectionRange(from, to);
    // So that it can be undone.
    if (!document.execCommand('insertText', false, insert)) {
      this.field.setRangeText(insert, from, to, 'end');
      this.changed();
    }
  }

  isInSelector(at) {
    const before = this.value.slice(0, at);
    return /[{,]\s*$/.test(before) && before.lastIndexOf('{') > before.lastIndexOf('(') && before.lastIndexOf('{') > before.lastIndexOf('}');
  }

  // --- keys ---

  key(event) {
    if (event.isComposing) return;
    const { completion } = this, isOpen = completion.isOpen;
    const does = (act) => { event.preventDefault(); act(); };
    switch (event.key) {
      case 'Enter':
        if (event.shiftKey) return;
        if (isOpen && completion.wasMoved && !event.ctrlKey && !event.metaKey) return does(() => this.take(completion.row));
        return does(() => { this.close(); this.onRun(); });
      case 'Tab': return isOpen && !event.shiftKey ? does(() => this.take(completion.row)) : undefined;
      case 'ArrowDown': return isOpen ? does(() => { completion.move(1); this.tell(); }) : undefined;
      case 'ArrowUp': return isOpen ? does(() => { completion.move(-1); this.tell(); }) : undefined;
      case 'ArrowLeft': case 'ArrowRight': case 'Home': case 'End': return this.close();
      case 'Escape': return does(() => isOpen ? this.close() : this.onEscape());
      case ' ': return event.ctrlKey ? does(() => this.complete(true)) : undefined;
      default: return undefined;
    }
  }
}

// A token's colour. `depth` counts the brackets that are open.
function kindOf(tokens, place, depth) {
  const token = tokens[place], word = token.text.toLowerCase();
  const next = tokens.slice(place + 1, place + 3).find(({ kind }) => kind !== 'space');
  if (word === '{') depth['{']++;
  if (word === '}') depth['{']--;
  if (word === ')') depth.clause = 0;
  if (word === '(' && depth.clause === 1) depth.clause = 2;
  if (token.kind !== 'word') return ['string', 'number', 'comment'].includes(token.kind) ? token.kind : '';
  if (depth['{'] > 0 || depth.clause === 2) return 'label';
  if (CLAUSES.includes(word)) depth.clause = 1;
  if (isCalled(word) && (next?.text === '(' || CLAUSES.includes(next?.text.toLowerCase()))) return 'function';
  return isKeyword(word) ? 'keyword' : '';
}
