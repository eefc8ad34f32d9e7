// An expression in pieces, for colours and for the completion; it takes any text, and never fails: what is wrong with an
// expression, the node says. Pure.

const RULES = [
  ['space', /\s+/y],
  ['comment', /#[^\n]*/y],
  ['string', /"(?:[^"\\\n]|\\[^])*"?|'(?:[^'\\\n]|\\[^])*'?|`[^`]*`?/y],
  ['number', /0x[\da-f]+|(?:\d+(?:ms|[smhdwy]))+|(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?/iy],
  ['word', /[a-z_:][\w:]*/iy],
  ['open', /[({[]/y],
  ['close', /[)}\]]/y],
  ['operator', /=~|!~|==|!=|<=|>=|[-+*/%^<>=@,]/y],
];

// Tokens with `kind`, `start`, `end` and `text`, one after the other, over the whole text.
export function tokensOf(text) {
  const tokens = [];
  for (let start = 0; start < text.length;) {
    const [kind, length] = tokenAt(text, start);
    tokens.push({ kind, start, end: start + length, text: text.slice(start, start + length) });
    start += length;
  }
  return tokens;
}

function tokenAt(text, start) {
  for (const [kind, rule] of RULES) {
    rule.lastIndex = start;
    const found = rule.exec(text);
    if (found) return [kind, found[0].length];
  }
  return ['other', text.codePointAt(start) > 0xffff ? 2 : 1];
}

export function isClosed({ text }) {
  return text.length > 1 && text.at(-1) === text[0] && (text[0] === '`' || !/[^\\](\\\\)*\\.$/s.test(text));
}

// The place in the text, in UTF-16 units, of a line and a column in bytes, both from 1.
export function placeOf(text, { line, column }) {
  const lines = text.split('\n');
  const before = lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0);
  let bytes = column - 1, place = before;
  for (const letter of lines[line - 1] ?? '') {
    if (bytes <= 0) break;
    bytes -= new TextEncoder().encode(letter).length;
    place += letter.length;
  }
  return Math.min(place, text.length);
}
