// Metrics, labels and values that the node has, for the completion: asked when they are wanted, and remembered for a
// minute. Knows the endpoints of names. Doesn't know what is done with them.
import { ask } from './api.js';
import { quoted } from './labels.js';

const NAMES_MAX = 5000, REMEMBERED_MS = 60000, REMEMBERED_MAX = 60;
const remembered = new Map();

async function askOnce(path, parameters) {
  const key = `${path}?${new URLSearchParams(parameters)}`, known = remembered.get(key), now = performance.now();
  if (known && now - known.at < REMEMBERED_MS) return known.answer;
  if (remembered.size >= REMEMBERED_MAX) remembered.delete(remembered.keys().next().value);
  const answer = ask(path, parameters, AbortSignal.timeout(10000)).then(({ data }) => data);
  remembered.set(key, { at: now, answer });
  // What failed is asked again.
  answer.catch(() => remembered.delete(key));
  return answer;
}

const matching = (matches) => matches.map((match) => ['match[]', match]);

export async function metrics(fragment) {
  return valuesLike('__name__', [], fragment);
}

export async function values(label, matches, fragment) {
  return valuesLike(label, matches, fragment);
}

// All where there aren't too many, or else those with the fragment in them.
async function valuesLike(label, matches, fragment) {
  const path = `api/v1/label/${encodeURIComponent(label)}/values`, limit = ['limit', NAMES_MAX];
  const all = await askOnce(path, [limit, ...matching(matches)]);
  if (all.length < NAMES_MAX || !fragment) return all;
  const pattern = `(?i).*${fragment.replace(/[^\w ]/gu, '\\$&')}.*`;
  const like = `{${quoted(label)}=~${quoted(pattern)}}`;
  return askOnce(path, [limit, ['match[]', narrowed(matches[0], label, pattern) ?? like]]);
}

// A selector with one more matcher.
function narrowed(match, label, pattern) {
  if (!match) return null;
  const body = match.slice(0, -1);
  return `${body}${body.endsWith('{') ? '' : ','}${quoted(label)}=~${quoted(pattern)}}`;
}

export const labels = (matches) => askOnce('api/v1/labels', [['limit', NAMES_MAX], ...matching(matches)]);

// By metric: its type and what its sender says of it.
export const metadata = () => askOnce('api/v1/metadata', [['limit', NAMES_MAX], ['limit_per_metric', 1]]);
