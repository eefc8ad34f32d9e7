// What a person is about to write where the caret is. Pure: knows the text, not what the node has.
import { tokensOf, isClosed } from './lexer.js';
import { CLAUSES, isCalled, isKeyword } from './language.js';

const MATCHERS = ['=', '!=', '=~', '!~'];
const NAMED_METRICS_MAX = 5;

// `kind`: `word` (metrics, functions, keywords), `label`, `value`, `duration` or null; `fragment`: what is written of it
// already; `from`, `to`: what of the text it takes the place of; `matches`: selectors that narrow labels and values.
export function contextAt(text, caret) {
  const tokens = tokensOf(text).filter((token) => token.kind !== 'space');
  const before = tokens.filter((token) => token.end < caret || (token.end === caret && !isGrowing(token, caret)));
  const current = tokens.find((token) => token.start < caret && isGrowing(token, caret));
  const open = openAt(before), last = before.at(-1);
  const at = current ?? { kind: 'nothing', start: caret, end: caret };
  const found = (kind, more = {}) => ({ kind, fragment: text.slice(at.start, caret), from: at.start, to: at.end, ...more });

  if (at.kind === 'comment') return found(null);
  if (at.kind === 'string') return inString(found, at, caret, before, open);
  if (at.kind === 'number') return found(open?.bracket === '[' && last?.text === '[' ? 'duration' : null);
  if (open?.bracket === '[') return found(at.kind === 'nothing' && last.text === '[' ? 'duration' : null);
  if (open?.bracket === '{') {
    const begins = last.text === '{' || last.text === ',';
    return found(begins ? 'label' : null, { matches: matchesOf(open, before) });
  }
  if (open?.clause) return found('label', { matches: metricsIn(tokens).map((metric) => metric) });
  const isOffset = last?.kind === 'word' && last.text === 'offset';
  return found(isOffset ? null : 'word');
}

// Whether a token goes on with what is typed next.
function isGrowing(token, caret) {
  switch (token.kind) {
    case 'word': case 'number': case 'comment': return token.end >= caret;
    case 'string': return token.end > caret || (token.end === caret && !isClosed(token));
    default: return false;
  }
}

function inString(found, at, caret, before, open) {
  const [label, operator] = before.slice(-2);
  if (open?.bracket !== '{' || !MATCHERS.includes(operator?.text) || !['word', 'string'].includes(label?.kind)) return found(null);
  const closed = isClosed(at);
  return {
    ...found('value', { label: nameOf(label), quote: at.text[0], closed, matches: matchesOf(open, before.slice(0, -2)) }),
    fragment: at.text.slice(1, caret - at.start),
    from: at.start + 1,
    to: closed ? at.end - 1 : caret,
  };
}

const nameOf = (token) => token.kind === 'string' ? token.text.slice(1, -1) : token.text;

// The innermost bracket that is open after these tokens.
function openAt(before) {
  const open = [];
  before.forEach((token, place) => {
    const previous = before[place - 1];
    if (token.kind === 'open') {
      const isClause = token.text === '(' && previous?.kind === 'word' && CLAUSES.includes(previous.text.toLowerCase());
      const metric = token.text === '{' && previous?.kind === 'word' ? previous.text : '';
      open.push({ bracket: token.text, place, clause: isClause, metric });
    } else if (token.kind === 'close') open.pop();
  });
  return open.at(-1);
}

// The selector as far as it is written, but for a matcher that isn't complete.
function matchesOf(open, before) {
  const inside = before.slice(open.place + 1), matchers = [];
  inside.forEach((token, place) => {
    const [label, operator] = [inside[place - 2], inside[place - 1]];
    if (token.kind === 'string' && MATCHERS.includes(operator?.text) && label) matchers.push(label.text + operator.text + token.text);
  });
  return open.metric || matchers.length > 0 ? [`${open.metric}{${matchers.join(',')}}`] : [];
}

// The metrics that an expression names.
function metricsIn(tokens) {
  let depth = 0;
  const found = new Set();
  tokens.forEach((token, place) => {
    if (token.text === '{') depth++;
    if (token.text === '}') depth--;
    const isCall = tokens[place + 1]?.text === '(' || isCalled(token.text) || isKeyword(token.text);
    const isListed = ['(', ','].includes(tokens[place - 1]?.text) && [')', ','].includes(tokens[place + 1]?.text) && isInClause(tokens, place);
    if (token.kind === 'word' && depth === 0 && !isCall && !isListed) found.add(token.text);
  });
  return [...found].slice(0, NAMED_METRICS_MAX);
}

const isInClause = (tokens, place) => openAt(tokens.slice(0, place))?.clause === true;
