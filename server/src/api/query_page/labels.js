// Label sets as they are written in PromQL. Knows names and quotes. Doesn't know where they come from.
import { make, plain } from './dom.js';

const isPlainMetric = (name) => /^[a-z_:][\w:]*$/i.test(name);
export const isPlainLabel = (name) => /^[a-z_]\w*$/i.test(name);
export const quoted = (text) => JSON.stringify(text);
export const labelText = (name) => isPlainLabel(name) ? name : quoted(name);

// Pairs of a text and whether it is a label's: `up{`, `job="node"`, `}`.
function parts({ __name__: metric = '', ...labels }) {
  const inside = Object.entries(labels).map(([name, value]) => `${labelText(name)}=${quoted(value)}`);
  if (metric && !isPlainMetric(metric)) inside.unshift(quoted(metric));
  const before = isPlainMetric(metric) ? metric : '';
  return { before, inside: inside.length > 0 || !before ? `{${inside.join(', ')}}` : '' };
}

export function seriesText(labels) {
  const { before, inside } = parts(labels);
  return plain(before + inside);
}

export function seriesElement(labels) {
  const { before, inside } = parts(labels);
  return make('span', { className: 'series' }, plain(before), make('i', { textContent: plain(inside) }));
}
