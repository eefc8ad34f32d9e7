"""The page to ask on, in a browser, beside a node with data of its own."""

import json
import math
import os
import time
import unittest
import urllib.parse
import urllib.request

from chromium import Chromium
from node import Node

WIDTHS = [390, 1280, 2560]
SCHEMES = ["light", "dark"]
JOBS = ["api", "node", "web"]
DENSE_SAMPLES = 10_000
MANY_SERIES = 1_200
MARKUP = '<img src=x onerror="window.wasRead = 1">'
# A frame may take so long, in ms, on a machine that does other things, too; at 60 Hz there are 16.7.
LAYER_MS_MAX = 100
FRAME_MS_MAX = 50

RAN = "document.querySelector('.panel').getAttribute('aria-busy') === 'false'"
DRAWN = f"{RAN} && Number(document.querySelector('canvas')?.dataset.points) > 0"
FAULT = "(({hidden, textContent}) => hidden ? '' : textContent)(document.querySelector('.fault'))"
OPTIONS = "[...document.querySelectorAll('.completion:not([hidden]) li code')].map((code) => code.textContent)"
VALUE = "document.querySelector('textarea').value"
ROWS = "[...document.querySelectorAll('tbody tr')].map((row) => row.innerText)"
# Pixels that something is drawn at in colour: no grey of axes.
COLOURED = """(() => {
  const canvas = document.querySelector('canvas'), { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  let count = 0;
  for (let i = 0; i < data.length; i += 4) {
    const [low, high] = [Math.min(data[i], data[i + 1], data[i + 2]), Math.max(data[i], data[i + 1], data[i + 2])];
    if (data[i + 3] > 100 && high - low > 40) count++;
  }
  return count;
})()"""


def lines(now_s):
    """What is written: in Prometheus' text format."""
    yield "# HELP requests_total Requests that were answered.\n# TYPE requests_total counter"
    for step in range(480):
        at_s = now_s - (479 - step) * 15
        for place, job in enumerate(JOBS):
            for number in range(2):
                rate = (place + 1) * 3 + number + 2 * math.sin(step / (20 + 5 * place))
                value = step * 15 * (place + 1) * 4 + rate * 100
                exemplar = f' # {{trace_id="trace-{step}"}} {3 + place + number / 2} {at_s}' if step % 24 == 0 else ""
                yield f'requests_total{{job="{job}",instance="host-{number}:9100"}} {value:.3f} {at_s * 1000}{exemplar}'
        for room, warmth in (("bath", 23), ("kitchen", 20)):
            yield f'temperature{{room="{room}"}} {warmth + 2 * math.sin(step / 40):.2f} {at_s * 1000}'
    for step in range(DENSE_SAMPLES):
        yield f"dense {math.sin(step / 300) + math.sin(step * 1.7) / 4:.4f} {(now_s - DENSE_SAMPLES + 1 + step) * 1000}"
    for number in range(MANY_SERIES):
        yield f'many{{n="{number}"}} {number} {now_s * 1000}'
    escaped = MARKUP.replace('"', '\\"')
    yield f'odd{{text="{escaped}"}} 1 {now_s * 1000}'


def write(node, all_lines):
    body = "\n".join(all_lines).encode() + b"\n"
    request = urllib.request.Request(f"http://{node.address}/api/v1/import/prometheus", data=body)
    with urllib.request.urlopen(request, timeout=30) as answer:
        assert answer.status in (200, 204), answer.read()


class Query(unittest.TestCase):
    """Tests that share a node and a browser, each with a tab of its own."""

    @classmethod
    def setUpClass(cls):
        cls.node = Node()
        cls.addClassCleanup(cls.node.stop)
        cls.now_s = int(time.time())
        written = list(lines(cls.now_s))
        for first in range(0, len(written), 4000):
            write(cls.node, written[first:first + 4000])
        cls.browser = Chromium()
        cls.addClassCleanup(cls.browser.close)

    def open(self, width=1280, scheme="light", height=900, search="", **panel):
        """A tab with a panel of these parameters, run where it has an expression."""
        state = urllib.parse.urlencode({f"g0.{name}": value for name, value in panel.items()})
        page = self.browser.open(f"http://{self.node.address}/query{search}#{state}", width, height, scheme)
        self.addCleanup(page.close)
        self.addCleanup(lambda: self.assertEqual(page.complaints(), []))
        return page

    def keep(self, page, name):
        """A screenshot, where somebody wants to look."""
        if "SCREENSHOTS" in os.environ:
            page.screenshot(os.path.join(os.environ["SCREENSHOTS"], f"{name}.png"))

    def test_it_draws_and_lists_at_every_width_and_in_both_colour_schemes(self):
        for width in WIDTHS:
            for scheme in SCHEMES:
                with self.subTest(width=width, scheme=scheme):
                    page = self.open(width, scheme, expr="sum by (job, instance) (rate(requests_total[5m]))", range_input="1h", show_exemplars="1")
                    page.wait(DRAWN)
                    page.wait("document.querySelectorAll('.legend li').length === 6")
                    self.assertGreater(page.evaluate(COLOURED), width)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                    left, top, wide, high = page.box("canvas")
                    page.mouse("mouseMoved", left + wide * .6, top + high * .5)
                    tip = page.wait("document.querySelector('.tip:not([hidden])')?.innerText")
                    self.assertRegex(tip, r"UTC[\s\S]*(job|trace_id)")
                    self.keep(page, f"graph-{width}-{scheme}")
                    page.click(".tabs button:last-child")
                    rows = page.wait(f"{RAN} && ({ROWS}.length === 6) && {ROWS}")
                    self.assertTrue(all("job" in row for row in rows), rows)
                    self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), width)
                    self.keep(page, f"table-{width}-{scheme}")

    def test_an_error_stands_where_it_is(self):
        page = self.open()
        page.type('sum({room="höhe"} + rate(up))')
        page.press("Escape")
        page.press("Enter")
        fault = page.wait(FAULT)
        # Two bytes of the expression are one letter.
        self.assertRegex(fault, r"^1:27.*expected type range vector")
        self.assertEqual(page.evaluate("document.querySelector('.t-wrong').textContent"), "up", fault)
        self.keep(page, "error")

    def test_an_error_is_told_while_the_expression_is_written(self):
        page = self.open()
        page.type("temperature +")
        self.assertIn("unexpected end of input", page.wait(FAULT))
        self.assertEqual(page.evaluate("document.querySelectorAll('.t-wrong').length"), 1)
        page.type(" 1")
        self.assertEqual(page.evaluate(FAULT), "")

    def test_keys_complete_functions_metrics_labels_and_values(self):
        page = self.open()
        page.type("rat")
        page.wait(f"{OPTIONS}[0] === 'rate'")
        page.press("Tab")
        self.assertEqual(page.evaluate(VALUE), "rate(")
        page.type("req")
        page.wait(f"{OPTIONS}[0] === 'requests_total'")
        note = page.evaluate("document.querySelector('.completion li span').textContent")
        self.assertEqual(note, "counter · Requests that were answered.")
        page.press("Tab")
        page.type("{")
        self.assertEqual(page.wait(f"{OPTIONS}.length === 2 && {OPTIONS}"), ["instance", "job"])
        self.keep(page, "completion-labels")
        page.press("ArrowDown")
        page.press("Enter")
        self.assertEqual(page.evaluate(VALUE), 'rate(requests_total{job="')
        self.assertEqual(page.wait(f"{OPTIONS}.length === 3 && {OPTIONS}"), JOBS)
        page.press("ArrowUp")
        page.press("Tab")
        self.assertEqual(page.evaluate(VALUE), 'rate(requests_total{job="web"')
        page.type("}[5")
        page.wait(f"{OPTIONS}.includes('5m')")
        page.press("Tab")
        page.type("])")
        self.assertEqual(page.evaluate(VALUE), 'rate(requests_total{job="web"}[5m])')
        page.press("Enter", ctrl=True)
        page.wait(DRAWN)
        self.assertEqual(page.evaluate("document.querySelectorAll('.legend li').length"), 2)

    def test_escape_closes_the_completion_and_enter_runs_what_is_written(self):
        page = self.open(tab="table", expr="", end_input=self.now_s)
        page.type("temp")
        page.wait(f"{OPTIONS}.length > 0")
        self.keep(page, "completion")
        page.press("Escape")
        self.assertEqual(page.evaluate(OPTIONS), [])
        page.type("erature")
        page.wait(f"{OPTIONS}.length === 0 || {OPTIONS}[0] === 'temperature'")
        page.press("Enter")
        self.assertEqual(page.wait(f"{RAN} && document.querySelectorAll('canvas, tbody tr').length > 0 && {VALUE}"), "temperature")
        page.evaluate("document.querySelector('textarea').select()")
        page.press("Backspace")
        self.assertEqual(page.evaluate(OPTIONS), [])
        page.press(" ", ctrl=True)
        page.wait(f"{OPTIONS}.length > 10")

    def test_an_address_opens_the_same_again(self):
        end = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.now_s - 600))
        page = self.open(expr='temperature{room="bath"}', range_input="30m", end_input=end, step_input="20s")
        page.wait(DRAWN)
        page.click("#add")
        page.wait("document.querySelectorAll('.panel').length === 2 && document.activeElement.tagName === 'TEXTAREA'")
        page.type("sum(temperature) ")
        page.press("Escape")
        page.press("Enter")
        page.wait("document.querySelectorAll('canvas').length === 2")
        shared = page.evaluate("location.href")
        other = self.browser.open(shared, 2560)
        self.addCleanup(other.close)
        other.wait("document.querySelectorAll('canvas').length === 2")
        self.assertEqual(other.evaluate("location.href"), shared)
        fields = "[...document.querySelectorAll('textarea, .controls input')].map((field) => field.type === 'checkbox' ? field.checked : field.value)"
        own = other.evaluate(fields)
        self.assertEqual(own[:2], ['temperature{room="bath"}', "30m"])
        # An input of a time leaves seconds out where there are none.
        own_end = own[2].replace("T", " ")
        self.assertEqual(own_end if own_end.count(":") == 2 else own_end + ":00", end)
        self.assertEqual(own[3], "20s")
        self.assertIn("step 20s", other.evaluate("document.querySelector('.facts').textContent"))
        self.keep(other, "panels-2560")
        other.click(".panel .remove")
        self.assertEqual(other.evaluate("document.querySelectorAll('.panel').length"), 1)
        self.assertNotIn("bath", other.evaluate("location.hash"))

    def test_addresses_of_prometheus_own_page_are_read(self):
        page = self.open(search="?g0.expr=temperature&g0.tab=1&g1.expr=dense&g1.range_input=2h&g1.res_type=fixed&g1.res_step=30")
        page.wait("document.querySelectorAll('tbody tr').length === 2 && document.querySelectorAll('canvas').length === 1")
        page.wait("document.querySelector('.panel:last-child').getAttribute('aria-busy') === 'false'")
        self.assertIn("step 30s", page.evaluate("document.querySelector('.panel:last-child .facts').textContent"))
        self.assertEqual(page.evaluate("location.search"), "")

    def test_ten_thousand_points_are_drawn_within_a_frame_and_the_pointer_moves_over_them(self):
        page = self.open(expr="dense", range_input=f"{DENSE_SAMPLES - 1}s", step_input="1s", end_input=self.now_s)
        page.wait(DRAWN)
        dataset = "({...document.querySelector('canvas').dataset})"
        first = page.evaluate(dataset)
        samples = page.evaluate(f"""(async () => {{
          const answer = await fetch('/api/v1/query_range?query=dense&start={self.now_s - DENSE_SAMPLES + 1}&end={self.now_s}&step=1');
          return (await answer.json()).data.result[0].values.length;
        }})()""")
        self.assertEqual(samples, DENSE_SAMPLES)
        # Without a loss: what is left out lies between the least and the greatest of its column of pixels.
        self.assertGreater(int(first["points"]), 2000)
        self.assertLess(float(first["layerMs"]), LAYER_MS_MAX)
        left, top, wide, high = page.box("canvas")
        took = []
        for part in range(1, 40):
            page.mouse("mouseMoved", left + wide * part / 40, top + high / 2)
            page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
            took.append(float(page.evaluate(dataset)["frameMs"]))
        last = page.evaluate(dataset)
        self.assertLessEqual(int(last["frames"]) - int(first["frames"]), 45, "a frame is drawn once")
        self.assertLess(sorted(took)[len(took) // 2], FRAME_MS_MAX)
        print(f"\n10,000 points: {first['layerMs']} ms to draw, {sorted(took)[len(took) // 2]} ms a frame with the pointer (median)")
        self.keep(page, "dense")

    def test_a_legend_leaves_series_out_and_a_drag_looks_closer(self):
        page = self.open(expr="temperature", range_input="1h")
        page.wait(DRAWN)
        both = int(page.evaluate("document.querySelector('canvas').dataset.points"))
        points = "Number(document.querySelector('canvas').dataset.points)"
        page.click(".legend button")
        page.wait(f"{points} === {both // 2}")
        page.click(".legend button")
        page.wait(f"{points} === {both}")
        page.click(".legend li:last-child button", ctrl=True)
        page.wait(f"{points} === {both // 2}")
        left, top, wide, high = page.box("canvas")
        page.mouse("mousePressed", left + wide * .5, top + 50, 1)
        page.mouse("mouseMoved", left + wide * .75, top + 50, 1)
        page.mouse("mouseReleased", left + wide * .75, top + 50, 1)
        range_s = page.wait("location.hash.includes('end_input') && new URLSearchParams(location.hash.slice(1)).get('g0.range_input')")
        self.assertRegex(range_s, r"^1[3-7]m")

    def test_exemplars_are_dots_that_say_their_labels(self):
        page = self.open(expr="sum by (job) (rate(requests_total[5m]))", range_input="1h")
        page.wait(DRAWN)
        before = page.evaluate(COLOURED)
        page.click(".check input")
        page.wait(f"{RAN} && {COLOURED} > {before + 100}")
        self.assertIn("show_exemplars=1", page.evaluate("location.hash"))

    def test_the_first_of_many_series_are_shown_and_the_page_says_so(self):
        page = self.open(expr="many", tab="table", end_input=self.now_s)
        page.wait(f"{RAN} && document.querySelectorAll('tbody tr').length === 1000")
        self.assertIn("first 1,000 series of more", page.evaluate("document.querySelector('.note').textContent"))
        page.click(".tabs button:first-child")
        page.wait("document.querySelectorAll('.legend li').length === 200")
        self.assertIn("first 200 series of more", page.evaluate("document.querySelector('.note').textContent"))
        self.keep(page, "many")

    def test_warnings_and_infos_of_the_answer_are_shown(self):
        page = self.open(expr="rate(temperature[5m])", tab="table", end_input=self.now_s)
        self.assertIn("metric might not be a counter", page.wait("document.querySelector('.note')?.textContent"))
        page.evaluate(f"location.hash = 'g0.tab=table&g0.end_input={self.now_s}&g0.expr=' + encodeURIComponent('quantile(2, temperature)')")
        page.wait("document.querySelector('.note.warm')?.textContent.includes('quantile value should be between 0 and 1')")

    def test_what_is_no_series_is_shown_too(self):
        for expr, shown in (("1 + 1", "2"), ('"text"', "text"), ("temperature[1m]", "@"), ("no_such_metric", "No series")):
            with self.subTest(expr=expr):
                page = self.open(expr=expr, tab="table", end_input=self.now_s)
                self.assertIn(shown, page.wait(f"{RAN} && document.querySelector('.result').innerText"))

    def test_no_label_becomes_markup(self):
        page = self.open(expr="odd", end_input=self.now_s)
        page.wait(DRAWN)
        page.mouse("mouseMoved", *[sum(pair) for pair in zip(page.box("canvas")[:2], (page.box("canvas")[2] - 15, 100))])
        page.click(".tabs button:last-child")
        self.assertIn("<img src=x", page.wait(f"{ROWS}.join('')"))
        page.click("textarea")
        page.evaluate("document.querySelector('textarea').select()")
        page.type('odd{text="')
        page.wait(f"{OPTIONS}.length === 1")
        page.press("Tab")
        self.assertEqual(page.evaluate(VALUE), f"odd{{text={json.dumps(MARKUP)}")
        self.assertEqual(page.evaluate("[document.images.length, window.wasRead ?? 0]"), [0, 0])

    def test_a_query_under_way_is_cancelled(self):
        page = self.open()
        # It never answers, as a node under load.
        page.evaluate("""window.fetch = (path, {signal}) => new Promise((_, fail) =>
          signal.addEventListener('abort', () => { window.wasAborted = true; fail(signal.reason); }))""")
        page.type("vector(1)")
        page.press("Enter", ctrl=True)
        page.wait("document.querySelector('.run').textContent === 'Cancel'")
        page.click(".run")
        page.wait("window.wasAborted && document.querySelector('.run').textContent === 'Run'")
        self.assertEqual(page.evaluate("document.querySelector('.result').innerText.trim()"), "Cancelled.")

    def test_the_pages_lead_to_each_other(self):
        page = self.open()
        self.assertEqual(page.evaluate("document.querySelector('nav a').href"), f"http://{self.node.address}/")
        self.assertIn('href="/query"', self.node.get("/"))

    def test_modules_read_and_write_as_they_should(self):
        page = self.open()
        check = """(async () => {
          const time = await import('/query/time.js'), numbers = await import('/query/numbers.js');
          const { contextAt } = await import('/query/context.js'), { placeOf } = await import('/query/lexer.js');
          const at = (text) => { const { kind, fragment, matches } = contextAt(text.replace('|', ''), text.indexOf('|')); return [kind, fragment, ...matches ?? []]; };
          return {
            durations: ['1h30m', '90', '5x', '', '0s', '1w'].map(time.parseDuration),
            texts: [5400e3, 6048e5, 864e5 * 8, 250].map(time.durationText),
            utc: [time.parseUtc('2026-11-25 07:30:00'), time.parseUtc('1764000000'), time.parseUtc('x')],
            nearest: [0, 4, 6, 99].map((one) => numbers.nearest([1, 5, 9], one)),
            values: ['NaN', '+Inf', '-Inf', '1e3'].map((one) => String(numbers.parseValue(one))),
            shown: [...numbers.shown([0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [5, 1, 9, 4, 4, 4, 8, 2, 4, 4], 0, 10, 2)],
            marks: numbers.marks(0, 1, 5).map(({ text }) => text).concat(numbers.marks(0, 25000, 5).map(({ text }) => text)),
            place: placeOf('höhe +\\n x', { line: 1, column: 7 }),
            contexts: [at('sum by (jo|) (up{a="1"})'), at('up{job="n|"}'), at('up{a="1", b=~"|'), at('up[|'), at('# no|'), at('rate(u|p)'), at('"te|xt"')],
          };
        })()"""
        self.assertEqual(page.evaluate(check), {
            "durations": [5400000, 90000, None, None, None, 604800000],
            "texts": ["1h30m", "1w", "8d", "250ms"],
            "utc": [1795591800000, 1764000000000, None],
            "nearest": [0, 1, 1, 2],
            "values": ["NaN", "Infinity", "-Infinity", "1000"],
            "shown": [0, 1, 2, 4, 5, 6, 7, 9],
            "marks": ["0", "0.2", "0.4", "0.6", "0.8", "1", "0", "5k", "10k", "15k", "20k", "25k"],
            "place": 5,
            "contexts": [["label", "jo", "up"], ["value", "n", "up{}"], ["value", "", 'up{a="1"}'], ["duration", ""], [None, "# no"], ["word", "u"], [None, '"te']],
        })


if __name__ == "__main__":
    unittest.main()
