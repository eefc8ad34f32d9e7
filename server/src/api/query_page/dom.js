// Elements, made of text alone: nothing that comes from the node is ever read as markup.
// Knows the document. Doesn't know what is shown.

// A text from outside that is longer is cut.
const TEXT_MAX = 2000;

export function make(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name.startsWith('aria-') || name === 'role') element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children);
  return element;
}

// What comes from outside, without what would turn or break the line that it is in.
export function plain(text) {
  const shown = String(text ?? '').replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g, '\ufffd');
  return shown.length > TEXT_MAX ? `${shown.slice(0, TEXT_MAX)}…` : shown;
}
