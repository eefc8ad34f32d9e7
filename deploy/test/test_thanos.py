"""deploy/thanos/run with Thanos itself: what is written to the router is read back through Query, also while a node is away
and after it has come back. And nodes that share no series, which evaluate what a Query in distributed mode asks.

Left out where there is no thanos on the PATH.
"""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from contextlib import ExitStack
from pathlib import Path

from chart import DEPLOY
from node import Node
from test_senders import free_address, running

THANOS = shutil.which("thanos")
FIRST_PORT = 19511
WITHIN_S = 60
SERIES = 200

CONFIGURATION = """
global: {{scrape_interval: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["127.0.0.1:{node}"]}}]
remote_write:
  - url: http://127.0.0.1:{router}/api/v1/receive
"""


@unittest.skipUnless(THANOS, "thanos isn't on the PATH")
class Cluster(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.start()

    def start(self):
        environment = {"FIRST_PORT": str(FIRST_PORT), "THANOS": THANOS}
        self.cluster = subprocess.Popen(
            [DEPLOY / "thanos/run", self.directory],
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.addCleanup(self.stop)
        self.processes = {}
        for line in self.cluster.stdout:
            if line.startswith("write to"):
                return
            name, _, rest = line.partition(": process ")
            self.processes[name] = int(rest.partition(",")[0])
        self.fail("the cluster ended before it was ready")

    def stop(self):
        if self.cluster.poll() is None:
            self.cluster.send_signal(signal.SIGTERM)
            self.cluster.communicate(timeout=WITHIN_S)
        self.assertEqual(self.cluster.wait(), 0)

    def ask(self, expression):
        """The values of an instant query, by series without the metric's name, and whether all nodes answered."""
        address = f"http://127.0.0.1:{FIRST_PORT + 6}/api/v1/query?"
        question = urllib.parse.urlencode({"query": expression, "dedup": "true"})
        with urllib.request.urlopen(address + question, timeout=30) as answer:
            told = json.load(answer)
        values = {json.dumps(one["metric"], sort_keys=True): one["value"][1] for one in told["data"]["result"]}
        return values, not told.get("warnings")

    def wait_for(self, expression, wanted):
        deadline = time.monotonic() + WITHIN_S
        told = None
        while time.monotonic() < deadline:
            told = self.ask(expression)
            if wanted(*told):
                return
            time.sleep(0.5)
        self.fail(f"{expression}: {told}")

    def test_a_series_is_read_once_whichever_nodes_have_it(self):
        configuration = self.directory / "prometheus.yaml"
        configuration.write_text(CONFIGURATION.format(node=FIRST_PORT, router=FIRST_PORT + 3))
        arguments = (f"--config.file={configuration}", f"--storage.tsdb.path={self.directory / 'prometheus'}")
        with running("prometheus", *arguments, f"--web.listen-address=127.0.0.1:{FIRST_PORT + 8}"):
            up, one = 'up{job="node"}', lambda values, whole: list(values.values()) == ["1"] and whole
            self.wait_for(up, one)
            # Once of each of three copies.
            self.wait_for("count(silverback_series)", lambda values, _: list(values.values()) == ["1"])
            count = "count_over_time(process_cpu_seconds_total[20s])"
            self.wait_for(count, lambda values, whole: whole and all(int(value) >= 15 for value in values.values()))
            os.kill(self.processes["node-2"], signal.SIGKILL)
            alive = lambda values, _: list(values.values()) == ["1"]
            self.wait_for(up, alive)
            time.sleep(5)
            # What came while it was away is there, without a gap.
            self.wait_for(count, lambda values, _: values and all(int(value) >= 15 for value in values.values()))
        self.stop()
        self.start()
        # All three have their data back.
        past = f"max_over_time(up{{job='node'}}[5m])"
        self.wait_for(past, lambda values, whole: list(values.values()) == ["1"] and whole)


REGIONS = ("eu", "us")
STEP_S = 15
STEPS = 40
# What both ways have to answer alike; the last ones see the labels that tell the nodes apart.
EXPRESSIONS = (
    "load",
    "sum(load)",
    "sum by (job) (rate(requests_total[1m]))",
    "avg by (job) (load)",
    "max without (i) (load)",
    "count(load > 3)",
    "topk(3, load)",
    "quantile(0.5, load)",
    "histogram_quantile(0.9, sum by (le) (rate(took_bucket[2m])))",
    "sum(rate(requests_total[1m])) / count(load)",
    "avg_over_time(load[1m]) * on (region, i) group_left (job) load",
    "max_over_time(sum(load)[2m:15s])",
    "sum(load offset 1m)",
    "absent(load{job='none'})",
    "time() + sum(load)",
    "sum by (region) (load)",
    "load{region='eu', i='3'}",
    "sum(load{region!='eu'})",
    "count by (region, job) ({region=~'eu|us', __name__='load'})",
)


def written(region, start_s):
    """Lines of samples that differ from region to region, in Prometheus' text format."""
    shift = REGIONS.index(region) * 100
    for step in range(STEPS + 1):
        at_ms = (start_s + step * STEP_S) * 1000
        for i in range(8):
            labels = f'{{i="{i}",job="{"ab"[i % 2]}"}}'
            yield f"load{labels} {shift + i + step % 7} {at_ms}"
            yield f"requests_total{labels} {(shift + 3 * i + 1) * step} {at_ms}"
        for le, count in (("0.1", step), ("1", 3 * step + shift), ("+Inf", 4 * step + shift)):
            yield f'took_bucket{{le="{le}"}} {count} {at_ms}'


def near(one, other):
    """Whether two answers are the same but for the last digits of sums in another order."""
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(near(one[key], other[key]) for key in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(near, one, other))
    try:
        return math.isclose(float(one), float(other), rel_tol=1e-9) or one == other
    except (TypeError, ValueError):
        return one == other


@unittest.skipUnless(THANOS, "thanos isn't on the PATH")
class Distributed(unittest.TestCase):
    def setUp(self):
        cleanup = ExitStack()
        self.addCleanup(cleanup.close)
        self.enter = cleanup.enter_context
        self.directory = Path(self.enter(tempfile.TemporaryDirectory()))
        self.start_s = int(time.time()) // STEP_S * STEP_S - (STEPS + 20) * STEP_S
        self.nodes = {region: self.start_node(region) for region in REGIONS}
        endpoints = [f"--endpoint={node.address}" for node in self.nodes.values()]
        self.local = self.start_query(*endpoints)
        self.distributed = self.start_query("--query.mode=distributed", *endpoints)

    def start_node(self, region):
        node = Node(free_address())
        options = ("--shards", "2", "--self-scrape-interval", "0s", "--log-level", "error", "--thanos-query-api", "on")
        self.enter(
            running(
                os.environ["SILVERBACK"],
                *("--listen", node.address, "--data-dir", self.directory / region),
                *("--external-labels", f"region={region},replica={region}-0", *options),
            )
        )
        node.wait_ready(lambda: False)
        lines = "\n".join(written(region, self.start_s)) + "\n"
        status, told = node._ask("/api/v1/import/prometheus", {}, lines.encode())
        self.assertEqual(status, 204, told)
        return node

    def start_query(self, *options):
        http, grpc = free_address(), free_address()
        addresses = (f"--http-address={http}", f"--grpc-address={grpc}")
        replica = "--query.replica-label=replica"
        self.enter(running(THANOS, "query", *addresses, replica, "--query.promql-engine=thanos", *options))
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            try:
                if len(self.ask(http, "query", query="count by (region) (load)", time=self.start_s)) == len(REGIONS):
                    return http
            except OSError:
                pass  # It isn't ready yet, or doesn't know the nodes.
            time.sleep(0.2)
        self.fail("Query doesn't find the nodes")

    def ask(self, address, endpoint, **parameters):
        """What a Query answers, by labels."""
        question = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"http://{address}/api/v1/{endpoint}?{question}", timeout=30) as answer:
            told = json.load(answer)
        self.assertEqual(told["status"], "success")
        return sorted(told["data"]["result"], key=lambda one: json.dumps(one["metric"], sort_keys=True))

    def asked(self, region):
        """How many expressions a node was asked."""
        text = self.nodes[region].get("/metrics")[1]
        return sum(map(float, re.findall(r"^silverback_thanos_queries_total\{.*} (\S+)$", text, re.MULTILINE)))

    def test_queries_are_evaluated_on_the_nodes_and_answered_as_if_they_were_not(self):
        end_s = self.start_s + STEPS * STEP_S
        ranged = {"start": self.start_s + 10 * STEP_S, "end": end_s, "step": STEP_S}
        for endpoint, times in (("query", {"time": end_s}), ("query_range", ranged)):
            for expression in EXPRESSIONS:
                with self.subTest(endpoint=endpoint, expression=expression):
                    before = {region: self.asked(region) for region in REGIONS}
                    local = self.ask(self.local, endpoint, query=expression, **times)
                    self.assertEqual({region: self.asked(region) for region in REGIONS}, before)
                    self.assertTrue(local)
                    distributed = self.ask(self.distributed, endpoint, query=expression, **times)
                    self.assertTrue(near(local, distributed), f"{local}\n{distributed}")
        for region in REGIONS:
            self.assertGreaterEqual(self.asked(region), len(EXPRESSIONS))
