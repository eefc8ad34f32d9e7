// An answer as rows. Knows the shapes that an answer has: scalar, string, vector, matrix, floats and native histograms.
// Doesn't know what was asked.
import { make, plain } from './dom.js';
import { seriesElement } from './labels.js';
import { whenText } from './time.js';

const SAMPLES_MAX = 30, BUCKETS_MAX = 200;

// `[element, rows]` of `{resultType, result}`.
export function tableOf({ resultType, result }) {
  switch (resultType) {
    case 'scalar': return rowsOf([[make('span', { className: 'series', textContent: 'scalar' }), text(result[1])]]);
    case 'string': return rowsOf([[make('span', { className: 'series', textContent: 'string' }), text(result[1], 'long')]]);
    case 'vector': return rowsOf(result.map(({ metric, value, histogram }) => [seriesElement(metric), value ? text(value[1]) : histogramOf(histogram[1])]));
    case 'matrix': return rowsOf(result.map(({ metric, values = [], histograms = [] }) => [seriesElement(metric), samplesOf(values, histograms)]));
    default: throw new Error(`an answer of an unknown type: ${plain(resultType)}`);
  }
}

const text = (value, className = '') => ({ className, content: [plain(value)] });

function rowsOf(rows) {
  const body = make('tbody', {}, ...rows.map(([name, { className, content }]) => make('tr', {}, make('td', {}, name), make('td', { className }, ...content))));
  const head = make('thead', {}, make('tr', {}, ...['Series', 'Value'].map((name) => make('th', { scope: 'col', textContent: name }))));
  return make('div', { className: 'rows' }, make('table', {}, head, body));
}

function samplesOf(values, histograms) {
  const samples = [
    ...values.map(([at, value]) => [at, plain(value)]),
    ...histograms.map(([at, { count, sum }]) => [at, `count ${plain(count)}, sum ${plain(sum)}`]),
  ].sort((a, b) => a[0] - b[0]);
  const content = samples.slice(-SAMPLES_MAX).map(([at, value]) => make('p', {}, value, make('span', { textContent: ` @ ${whenText(at * 1000)}` })));
  if (samples.length > SAMPLES_MAX) content.unshift(make('p', {}, make('span', { textContent: `the newest ${SAMPLES_MAX} of ${samples.length} samples` })));
  return { className: '', content };
}

function histogramOf({ count, sum, buckets = [] }) {
  const bounds = (kind) => [[1, 3].includes(kind) ? '[' : '(', [0, 3].includes(kind) ? ']' : ')'];
  const lines = buckets.slice(0, BUCKETS_MAX).map(([kind, from, to, value]) => {
    const [open, close] = bounds(kind);
    return make('p', {}, make('span', { textContent: `${open}${plain(from)}, ${plain(to)}${close} ` }), plain(value));
  });
  const summary = make('summary', { textContent: `count ${plain(count)}, sum ${plain(sum)}` });
  return { className: '', content: [make('details', {}, summary, ...lines)] };
}
