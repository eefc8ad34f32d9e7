// Which line is which, and which are drawn: a click leaves a series out or brings it back, one with Ctrl, Cmd or Shift shows
// it alone. Knows series by their place. Doesn't draw them.
import { make } from './dom.js';
import { seriesElement } from './labels.js';
import { seriesColour } from './colours.js';

export class Legend {
  // `onHide` is given the places of all that aren't drawn.
  constructor(onHide) {
    this.onHide = onHide;
    this.hidden = new Set();
    this.element = make('ul', { className: 'legend', 'aria-label': 'Series' });
  }

  show(series) {
    this.hidden = new Set();
    this.element.replaceChildren(...series.map(({ labels }, place) => make('li', {}, make('button', {
      type: 'button', 'aria-pressed': 'true', title: 'Click: show or hide. Ctrl and click: show it alone.',
      onclick: (event) => event.ctrlKey || event.metaKey || event.shiftKey ? this.showAlone(place) : this.toggle(place),
    }, make('i', { className: 'swatch' }), seriesElement(labels)))));
    this.colour();
  }

  colour() {
    [...this.element.children].forEach((row, place) => { row.querySelector('.swatch').style.background = seriesColour(place); });
  }

  toggle(place) {
    if (!this.hidden.delete(place)) this.hidden.add(place);
    this.tell();
  }

  // A second time: all again.
  showAlone(place) {
    const all = [...this.element.children].map((_, i) => i), isAlone = this.hidden.size === all.length - 1 && !this.hidden.has(place);
    this.hidden = new Set(isAlone ? [] : all.filter((one) => one !== place));
    this.tell();
  }

  tell() {
    [...this.element.children].forEach((row, place) => row.firstChild.setAttribute('aria-pressed', String(!this.hidden.has(place))));
    this.onHide(new Set(this.hidden));
  }
}
