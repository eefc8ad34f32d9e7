// Durations and times as people write them. Knows clocks and time zones; doesn't know what is asked at them.

const UNITS = [['y', 31536e6], ['w', 6048e5], ['d', 864e5], ['h', 36e5], ['m', 6e4], ['s', 1e3], ['ms', 1]];
const SIZES = new Map(UNITS);

// The ranges that − and + go through, and the steps that are chosen where none is given.
const RANGES = ['1m', '5m', '15m', '30m', '1h', '2h', '6h', '12h', '1d', '2d', '1w', '2w', '4w', '8w', '1y', '2y'];
const STEPS = [1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1200, 1800, 3600, 7200, 14400, 21600, 43200, 86400];
const STEPS_WANTED = 360;

// In ms, of `1h30m` or of seconds; null for anything else.
export function parseDuration(text) {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return Number(trimmed) > 0 ? Number(trimmed) * 1000 : null;
  if (!/^(\d+(ms|[ywdhms]))+$/.test(trimmed)) return null;
  const parts = [...trimmed.matchAll(/(\d+)(ms|[ywdhms])/g)];
  const total = parts.reduce((sum, [, count, unit]) => sum + Number(count) * SIZES.get(unit), 0);
  return Number.isSafeInteger(total) && total > 0 ? total : null;
}

export function durationText(ms) {
  let rest = Math.round(ms), text = '';
  for (const [unit, size] of UNITS) {
    // Weeks and years only where nothing is left over: 8d, not 1w1d.
    if ((unit === 'y' || unit === 'w') && rest % size !== 0) continue;
    const whole = Math.floor(rest / size);
    if (whole > 0) text += whole + unit;
    rest -= whole * size;
  }
  return text || '0s';
}

// The next range that is longer or shorter.
export function nextRange(ms, direction) {
  const all = RANGES.map(parseDuration);
  const found = direction > 0 ? all.find((one) => one > ms) : all.findLast((one) => one < ms);
  return found ?? ms;
}

export function stepFor(rangeMs) {
  const wanted = rangeMs / 1000 / STEPS_WANTED;
  return (STEPS.find((step) => step >= wanted) ?? Math.ceil(wanted / 86400) * 86400) * 1000;
}

const two = (number) => String(number).padStart(2, '0');

// `2026-11-25 07:30:00` in UTC, as Prometheus writes it into addresses.
export function utcText(ms) {
  return new Date(ms).toISOString().slice(0, 19).replace('T', ' ');
}

// In ms, of that or of seconds since the epoch; null for anything else.
export function parseUtc(text) {
  const trimmed = text.trim();
  if (/^\d+(\.\d+)?$/.test(trimmed)) return whole(Number(trimmed) * 1000);
  const found = /^(\d{4}-\d\d-\d\d)[ T](\d\d:\d\d(:\d\d(\.\d+)?)?)Z?$/.exec(trimmed);
  return found ? whole(Date.parse(`${found[1]}T${found[2]}Z`)) : null;
}

const whole = (ms) => Math.abs(ms) <= 8.64e15 ? Math.round(ms) : null;

// What a field for a local time holds.
export function localInput(ms) {
  const date = new Date(ms);
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function parseLocalInput(text) {
  const ms = new Date(text).getTime();
  return Number.isNaN(ms) ? null : ms;
}

export function whenText(ms) {
  const date = new Date(ms), part = ms % 1000 ? `.${String(Math.round(ms % 1000)).padStart(3, '0')}` : '';
  return `${localInput(ms).replace('T', ' ')}${part} ${zoneText(date)}`;
}

function zoneText(date) {
  const minutes = -date.getTimezoneOffset();
  if (minutes === 0) return 'UTC';
  const apart = Math.abs(minutes);
  return `UTC${minutes < 0 ? '\u2212' : '+'}${Math.floor(apart / 60)}${apart % 60 ? `:${two(apart % 60)}` : ''}`;
}

// Marks on an axis of time: round local times, at most so many, with the text of each.
export function timeMarks(start, end, count) {
  const step = [...STEPS, 2 * 86400, 7 * 86400, 30 * 86400, 90 * 86400, 365 * 86400]
    .map((seconds) => seconds * 1000).find((ms) => (end - start) / ms <= count) ?? end - start;
  const zone = new Date(start).getTimezoneOffset() * 6e4, marks = [];
  for (let at = Math.ceil((start - zone) / step) * step + zone; at <= end && marks.length < 50; at += step) {
    marks.push({ at, text: markText(new Date(at), step) });
  }
  return marks;
}

function markText(date, step) {
  const clock = `${two(date.getHours())}:${two(date.getMinutes())}`;
  const isMidnight = clock === '00:00' && date.getSeconds() === 0;
  if (step >= 864e5 || isMidnight) return date.toLocaleDateString('en', { month: 'short', day: 'numeric' });
  return step < 6e4 ? `${clock}:${two(date.getSeconds())}` : clock;
}
