// Answers in the form that is drawn, and the bounds of what is asked for. Pure: knows the API's shapes, not the page.
import { parseValue } from './numbers.js';

// Series and points that a graph is given, rows that a table is given, exemplars that are drawn.
export const GRAPH_SERIES_MAX = 200, POINTS_MAX = 1e6, TABLE_ROWS_MAX = 1000, EXEMPLARS_MAX = 1000;

// What the node says where it leaves series out because no more were asked for.
const TRUNCATED = 'results truncated due to limit';

export const seriesLimit = (steps) => Math.max(1, Math.min(GRAPH_SERIES_MAX, Math.floor(POINTS_MAX / steps)));

// A matrix as columns of numbers; `histograms` counts the series that are none.
export function linesOf({ result }) {
  const lines = result.filter(({ values }) => values?.length > 0).map(({ metric, values }) => ({
    labels: metric,
    times: Float64Array.from(values, ([at]) => Math.round(at * 1000)),
    values: Float64Array.from(values, ([, value]) => parseValue(value)),
  }));
  return { lines, histograms: result.filter(({ histograms }) => histograms?.length > 0).length };
}

export function exemplarsOf(series) {
  const all = series.flatMap(({ seriesLabels, exemplars }) => exemplars.map(({ labels, value, timestamp }) => ({
    seriesLabels, labels, value: parseValue(value), time: Math.round(timestamp * 1000),
  })));
  // Evenly over all of them, so that no time is left bare.
  const every = Math.ceil(all.length / EXEMPLARS_MAX);
  return { exemplars: all.filter((_, place) => place % every === 0), all: all.length };
}

// The notes of an answer, and whether it has more series than were asked for.
export function notesOf({ warnings = [], infos = [] }) {
  return {
    isTruncated: warnings.includes(TRUNCATED),
    warnings: warnings.filter((words) => words !== TRUNCATED),
    infos,
  };
}
