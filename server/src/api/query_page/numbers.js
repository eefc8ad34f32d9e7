// Values and scales: Prometheus' texts of floats, round marks on an axis, points that can be seen. Pure: knows numbers
// alone, neither canvas nor page.

const NAMED = new Map([['NaN', NaN], ['+Inf', Infinity], ['-Inf', -Infinity]]);

export const parseValue = (text) => NAMED.has(text) ? NAMED.get(text) : Number(text);

// Round marks within low..high, at most so many.
export function marks(low, high, count) {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [];
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => span / one <= count) ?? span;
  const found = [];
  for (let i = Math.ceil(low / step); i * step <= high && found.length <= count; i++) found.push(i * step);
  return found.map((value) => ({ value, text: axisText(value, step) }));
}

const SIZES = [['T', 1e12], ['G', 1e9], ['M', 1e6], ['k', 1e3]];

function axisText(value, step) {
  const size = Math.max(Math.abs(value), step);
  if (value === 0) return '0';
  if (size >= 1e15 || size < 1e-4) return value.toExponential(2).replace(/\.?0+e/, 'e');
  const [unit, scale] = SIZES.find(([, from]) => size >= from && from > 1) ?? ['', 1];
  const decimals = Math.min(Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9)), 8);
  const text = (value / scale).toFixed(decimals + (isRound(step / scale, decimals) ? 0 : 1));
  return `${text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '')}${unit}`;
}

function isRound(step, decimals) {
  const shifted = step * 10 ** decimals;
  return Math.abs(shifted - Math.round(shifted)) < 1e-6;
}

// The range of an axis over these values: with zero where it is near, and with some room.
export function axisRange(low, high) {
  if (!(low <= high)) return [0, 1];
  if (low === high) return low === 0 ? [-1, 1] : low > 0 ? [0, low * 2] : [low * 2, 0];
  const room = (high - low) * .06;
  const isNearNought = low >= 0 && low <= high - low;
  return [isNearNought ? 0 : low - room, high <= 0 && -high <= high - low ? 0 : high + room];
}

// The place of the time that is nearest, by halving; the times ascend. −1 where there is none.
export function nearest(times, at) {
  let low = 0, high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] < at) low = middle + 1; else high = middle;
  }
  if (low === times.length) return low - 1;
  return low > 0 && at - times[low - 1] <= times[low] - at ? low - 1 : low;
}

// The places of the points that show: all of few; of many the first, least, greatest and last of each column of pixels.
export function shown(times, values, start, end, columns) {
  const count = times.length;
  if (count <= columns * 4) return Uint32Array.from({ length: count }, (_, i) => i);
  const kept = new Uint32Array(Math.min(count, (columns + 2) * 4));
  const scale = columns / (end - start);
  let length = 0;
  for (let first = 0; first < count;) {
    const column = Math.floor((times[first] - start) * scale);
    let least = first, most = first, last = first;
    while (last + 1 < count && Math.floor((times[last + 1] - start) * scale) === column) {
      last++;
      if (!(values[last] >= values[least])) least = last;
      if (!(values[last] <= values[most])) most = last;
    }
    for (const place of new Set([first, Math.min(least, most), Math.max(least, most), last])) {
      if (length < kept.length) kept[length++] = place;
    }
    first = last + 1;
  }
  return kept.subarray(0, length);
}
