// The list of what may be written next, below the caret. Knows its rows and which is chosen. Doesn't know where they come
// from, nor the text.
import { make, plain } from './dom.js';

let made = 0;

export class Completion {
  // `onTake` is given the row that was clicked.
  constructor(onTake) {
    this.id = `completion-${++made}`;
    this.rows = [];
    this.chosen = 0;
    this.wasMoved = false;
    this.list = make('ul', { id: this.id, role: 'listbox', 'aria-label': 'Completions' });
    this.element = make('div', { className: 'completion', hidden: true }, this.list, make('p', { textContent: 'Tab takes it · ↑ ↓ choose · Esc closes' }));
    // The text keeps the focus.
    this.element.addEventListener('mousedown', (event) => event.preventDefault());
    this.list.addEventListener('click', (event) => {
      const place = [...this.list.children].indexOf(event.target.closest('li'));
      if (place >= 0) onTake(this.rows[place]);
    });
  }

  get isOpen() { return !this.element.hidden; }

  // Rows at a place within what the list lies in, in pixels.
  show(rows, { left, top, width }, fragment) {
    this.rows = rows;
    this.wasMoved = false;
    this.list.replaceChildren(...rows.map((row, place) => this.option(row, place, fragment)));
    this.element.hidden = rows.length === 0;
    this.element.style.top = `${top}px`;
    this.element.style.left = `${Math.max(Math.min(left, width - this.element.offsetWidth), 0)}px`;
    this.list.scrollTop = 0;
    this.choose(0);
  }

  hide() {
    this.element.hidden = true;
    this.rows = [];
  }

  option(row, place, fragment) {
    const code = make('code'), end = row.at + fragment.length;
    if (row.at >= 0 && fragment) code.append(plain(row.text.slice(0, row.at)), make('b', { textContent: plain(row.text.slice(row.at, end)) }), plain(row.text.slice(end)));
    else code.textContent = plain(row.text);
    return make('li', { id: `${this.id}-${place}`, role: 'option' }, code, make('span', { textContent: plain(row.note) }));
  }

  choose(place) {
    this.chosen = (place + this.rows.length) % Math.max(this.rows.length, 1);
    [...this.list.children].forEach((option, i) => option.setAttribute('aria-selected', i === this.chosen));
    if (this.wasMoved) this.list.children[this.chosen]?.scrollIntoView({ block: 'nearest' });
  }

  move(by) {
    this.wasMoved = true;
    this.choose(this.chosen + by);
  }

  get row() { return this.rows[this.chosen]; }
  get chosenId() { return this.isOpen ? `${this.id}-${this.chosen}` : ''; }
}
