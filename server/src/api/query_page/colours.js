// The colours of series, and those of the page as a canvas needs them. Knows whether it is dark. Doesn't know what is drawn.

export const darkness = matchMedia('(prefers-color-scheme: dark)');

const LIGHT = ['#1d7558', '#c2571a', '#3564b8', '#a3386b', '#8a7300', '#6b4fb3', '#0f7d94', '#b3362b', '#5b7f1e', '#59638f'];
const DARK = ['#58c79c', '#f0985a', '#7fa8f5', '#e583b4', '#d6c14a', '#b49cf2', '#56c4dc', '#ee7d70', '#a5cf63', '#a3acd6'];

export function seriesColour(place) {
  const colours = darkness.matches ? DARK : LIGHT;
  return colours[place % colours.length];
}

export function pageColours(element) {
  const style = getComputedStyle(element), of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { card: of('card'), line: of('line'), edge: of('edge'), faint: of('faint'), text: of('text'), soft: of('accent-soft'), accent: of('accent'), warm: of('warm') };
}
