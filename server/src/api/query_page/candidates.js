// What may be where the caret is, the most likely first. Knows the language and the node's names. Doesn't know how they
// are shown.
import { AGGREGATIONS, DURATIONS, FUNCTIONS, KEYWORDS } from './language.js';
import { labelText } from './labels.js';
import * as names from './names.js';

const SHOWN_MAX = 60;

// Each with `text`, which is shown, `insert`, `note` and the place of the fragment in the text, `at`.
export async function candidatesFor(context) {
  switch (context.kind) {
    case 'word': return best(await words(context.fragment), context.fragment);
    case 'label': return best((await names.labels(context.matches)).filter((name) => name !== '__name__').map(asLabel), context.fragment);
    case 'value': return best(await valuesOf(context), context.fragment);
    case 'duration': return best(DURATIONS.map((text) => ({ text, insert: text, note: '' })), context.fragment);
    case null: return [];
    default: throw new Error(`nothing completes ${context.kind}`);
  }
}

const asLabel = (name) => ({ text: name, insert: labelText(name), note: 'label' });

// A node that can't list its names yet completes the language all the same.
async function words(fragment) {
  const [metrics, said] = await Promise.all([
    names.metrics(fragment).catch(() => []),
    names.metadata().catch(() => ({})),
  ]);
  const called = (kind) => ([name, takes, note]) => ({ text: name, insert: `${name}(`, note: `${takes ? `(${takes}) ` : ''}${note}`, kind });
  return [
    ...metrics.map((text) => ({ text, insert: metricText(text), note: noteOf(said, text), kind: 'metric' })),
    ...AGGREGATIONS.map(called('aggregation')),
    ...FUNCTIONS.map(called('function')),
    ...KEYWORDS.map((text) => ({ text, insert: text, note: 'keyword', kind: 'keyword' })),
  ];
}

const metricText = (name) => /^[a-z_:][\w:]*$/i.test(name) ? name : `{${JSON.stringify(name)}}`;

function noteOf(said, metric) {
  const [entry] = Object.hasOwn(said, metric) ? said[metric] : [];
  return entry ? [entry.type, entry.help].filter((word) => word && word !== 'unknown').join(' · ') : 'metric';
}

async function valuesOf({ label, matches, fragment, quote, closed }) {
  const escaped = (text) => quote === '`' ? text : JSON.stringify(text).slice(1, -1).replaceAll(quote === "'" ? "'" : '\u0000', "\\'");
  return (await names.values(label, matches, fragment)).map((text) => ({ text, insert: escaped(text) + (closed ? '' : quote), note: '' }));
}

// Those that begin with the fragment, then those with it inside, then those with its letters in their order; 0 is best.
function rank(text, fragment) {
  const place = text.indexOf(fragment);
  if (place === 0) return text.length === fragment.length ? 0 : 1;
  if (place > 0) return /[^a-z0-9]/.test(text[place - 1]) ? 2 : 3;
  let at = 0;
  for (const letter of text) if (letter === fragment[at]) at++;
  return at >= fragment.length && fragment.length > 2 ? 4 : null;
}

export function best(candidates, fragment) {
  const wanted = fragment.toLowerCase();
  const ranked = candidates
    .map((candidate) => ({ candidate, lower: candidate.text.toLowerCase() }))
    .map(({ candidate, lower }) => ({ ...candidate, rank: rank(lower, wanted), at: lower.indexOf(wanted) }))
    .filter((candidate) => candidate.rank !== null);
  ranked.sort((a, b) => a.rank - b.rank || (wanted ? a.text.length - b.text.length : 0) || (a.text < b.text ? -1 : 1));
  return ranked.slice(0, SHOWN_MAX);
}
