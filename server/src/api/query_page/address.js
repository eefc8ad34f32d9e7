// Panels as text in the page's address, so that it can be shared, in Prometheus' parameters: `g0.expr=…`. They are written
// after `#`, which a browser keeps to itself: no expression gets into the logs of proxies, and none is too long.
// Knows parameters. Doesn't know the page.
import { parseDuration, parseUtc, durationText, utcText } from './time.js';

export const PANELS_MAX = 20;
export const HOUR_MS = 36e5;

export const emptyPanel = () => ({ expr: '', tab: 'graph', rangeMs: HOUR_MS, endMs: null, stepMs: null, exemplars: false });

// Of what is after `#`, or else after `?`.
export function readAddress(search, hash) {
  const behindHash = panelsOf(new URLSearchParams(hash.replace(/^#/, '')));
  return behindHash.length > 0 ? behindHash : panelsOf(new URLSearchParams(search));
}

function panelsOf(parameters) {
  const panels = [];
  while (panels.length < PANELS_MAX && parameters.has(`g${panels.length}.expr`)) {
    const number = panels.length;
    panels.push(panelOf((name) => parameters.get(`g${number}.${name}`) ?? ''));
  }
  return panels;
}

function panelOf(get) {
  // Former versions of Prometheus' page count tabs, and the newest knows kinds of steps.
  const isTable = ['table', '1'].includes(get('tab'));
  const step = get('step_input') || (['fixed', 'custom'].includes(get('res_type')) ? get('res_step') : '');
  return {
    ...emptyPanel(),
    expr: get('expr'),
    tab: isTable ? 'table' : 'graph',
    rangeMs: parseDuration(get('range_input')) ?? HOUR_MS,
    endMs: parseUtc(get('end_input')) ?? (isTable ? parseUtc(get('moment_input')) : null),
    stepMs: parseDuration(step),
    exemplars: ['1', 'true'].includes(get('show_exemplars')),
  };
}

export function writeAddress(panels) {
  const parameters = new URLSearchParams();
  panels.forEach((panel, number) => {
    const put = (name, value) => parameters.set(`g${number}.${name}`, value);
    put('expr', panel.expr);
    put('tab', panel.tab);
    put('range_input', durationText(panel.rangeMs));
    if (panel.endMs !== null) put('end_input', utcText(panel.endMs));
    if (panel.stepMs !== null) put('step_input', durationText(panel.stepMs));
    if (panel.exemplars) put('show_exemplars', '1');
  });
  return `#${parameters}`;
}
