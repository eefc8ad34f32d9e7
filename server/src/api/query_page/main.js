// The page: its panels, and the address that says them. Knows the order of panels and the browser's history. Doesn't know
// what a panel does.
import { PANELS_MAX, emptyPanel, readAddress, writeAddress } from './address.js';
import { darkness } from './colours.js';
import { Panel } from './panel.js';

const place = document.getElementById('panels'), add = document.getElementById('add');
let panels = [];

function open(states) {
  panels.forEach((panel) => panel.cancel());
  // In the form that it is written in: nothing of Prometheus' own form, after `?`, is left.
  history.replaceState(null, '', location.pathname + addressOf(states));
  panels = states.map(panelOf);
  place.replaceChildren(...panels.map(({ element }) => element));
  panels.filter((panel) => !panel.isEmpty).forEach((panel) => panel.run());
  changed();
}

function panelOf(state) {
  return new Panel(state, { onRun: remember, onRemove: remove });
}

function remove(panel) {
  panel.cancel();
  panel.element.remove();
  panels = panels.filter((one) => one !== panel);
  if (panels.length === 0) append();
  remember();
}

function append() {
  const panel = panelOf(emptyPanel());
  panels.push(panel);
  place.append(panel.element);
  panel.editor.focus();
  changed();
}

function changed() {
  add.disabled = panels.length >= PANELS_MAX;
  const first = panels.find(({ state }) => state.expr)?.state.expr;
  document.title = `${first ? `${first.slice(0, 60)} · ` : ''}Query · Silverback`;
}

// What was asked goes into the address, so that it can be shared, and that the browser's Back leads to what was before.
function remember() {
  const address = addressOf(panels.map(({ state }) => state));
  if (address !== location.hash) history.pushState(null, '', location.pathname + address);
  changed();
}

const addressOf = (states) => states.some(({ expr }) => expr) ? writeAddress(states) : '';

const stated = () => {
  const states = readAddress(location.search, location.hash);
  return states.length > 0 ? states : [emptyPanel()];
};

add.addEventListener('click', append);
addEventListener('popstate', () => open(stated()));
darkness.addEventListener('change', () => panels.forEach((panel) => panel.recolour()));

open(stated());
if (panels[0].isEmpty) panels[0].editor.focus();
