"""The senders' configurations, each with the sender itself: what it scrapes or is sent arrives at a node.

All but Prometheus are left out where they aren't on the PATH.
"""

import itertools
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from contextlib import ExitStack, contextmanager
from pathlib import Path

from chart import DEPLOY
from node import Node

SENDERS = DEPLOY / "senders"
NODE = "silverback.ingest.svc:9009"
COLLECTOR = shutil.which("otelcol") or shutil.which("otelcol-contrib")
ARRIVED_WITHIN_S = 30
AWAY_S = 10
# With such a gap some of what is scraped each second is missing.
MISSED_S = 2.5
PUSH_INTERVAL_S = 0.5


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def listens(address):
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(*arguments):
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


class Sender(unittest.TestCase):
    def setUp(self):
        cleanup = ExitStack()
        self.addCleanup(cleanup.close)
        self.enter = cleanup.enter_context
        self.directory = Path(self.enter(tempfile.TemporaryDirectory(prefix="silverback-senders-")))
        self.own_address = free_address()
        self.node = Node(free_address())
        self.start_node()

    def start_node(self):
        self.process = self.enter(
            running(os.environ["SILVERBACK"], "--listen", self.node.address, "--data-dir", str(self.directory / "node"))
        )
        self.node.wait_ready(lambda: self.process.poll() is not None)

    @contextmanager
    def node_away(self):
        self.process.terminate()
        self.process.wait(30)
        yield
        self.start_node()

    def configuration(self, name, here):
        """A file as it is told to the sender, with `here` in place of what it names, and this test's node."""
        text = (SENDERS / name).read_text()
        for told, ours in (here | {NODE: self.node.address}).items():
            self.assertIn(told, text)
            text = text.replace(told, ours)
        file = self.directory / name
        file.write_text(text)
        return str(file)

    def await_that(self, holds, otherwise):
        deadline = time.monotonic() + ARRIVED_WITHIN_S
        while not holds():
            if time.monotonic() > deadline:
                self.fail(otherwise)
            time.sleep(0.2)

    def await_samples(self, selector):
        self.await_that(lambda: self.node.values(selector), f"no samples of {selector}")

    def longest_gap_s(self, selector):
        times = self.node.times_s(selector)
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def check_nothing_is_missed_while_away(self, selector):
        with self.node_away():
            time.sleep(AWAY_S)
        returned = time.time()
        self.await_that(lambda: self.node.times_s(selector)[-1] > returned, "nothing comes any more")
        # What was kept meanwhile may come after what is new: a sender has several requests in flight.
        self.await_that(lambda: self.longest_gap_s(selector) < MISSED_S, "what was kept while the node was away is missing")

    def test_prometheus(self):
        self.enter(
            running(
                "prometheus",
                "--config.file=" + self.configuration("prometheus.yaml", {"localhost:9090": self.own_address, "15s": "1s"}),
                f"--storage.tsdb.path={self.directory}/prometheus",
                f"--web.listen-address={self.own_address}",
            )
        )
        self.await_samples('prometheus_build_info{job="prometheus", cluster="example"}')

    @unittest.skipUnless(shutil.which("vmagent"), "vmagent (Debian's victoria-metrics) is not on the PATH")
    def test_vmagent(self):
        here = {
            "localhost:8429": self.own_address,
            "=vmagent.yaml": f"={self.directory}/vmagent.yaml",
            "/var/lib/vmagent": f"{self.directory}/vmagent",
            "15s": "1s",
        }
        configuration = self.configuration("vmagent.yaml", here)
        flags = re.findall(r"-[\w.]+=\S+", Path(configuration).read_text())
        self.enter(running("vmagent", *flags, f"-httpListenAddr={self.own_address}"))
        scraped = 'vm_app_version{job="vmagent", cluster="example"}'
        self.await_samples(scraped)
        self.check_nothing_is_missed_while_away(scraped)

    @unittest.skipUnless(COLLECTOR, "the OpenTelemetry Collector (otelcol or otelcol-contrib) is not on the PATH")
    def test_collector(self):
        configuration = self.configuration(
            "otel-collector.yaml", {"0.0.0.0:4317": free_address(), "0.0.0.0:4318": self.own_address}
        )
        # Without its own metrics: they would be served at a port that may be taken.
        self.enter(running(COLLECTOR, f"--config={configuration}", "--set=service.telemetry.metrics.level=none"))
        self.await_that(lambda: listens(self.own_address), "the collector doesn't listen")
        collector = Node(self.own_address)
        count = itertools.count()

        def push():
            self.assertEqual(collector.write("pushed", next(count))[0], 200)
            time.sleep(PUSH_INTERVAL_S)

        push()
        self.await_samples("pushed")
        with self.node_away():
            for _ in range(round(AWAY_S / PUSH_INTERVAL_S)):
                push()
        pushed = list(range(next(count)))
        self.await_that(lambda: self.node.values("pushed") == pushed, "not all that was pushed is stored")

    @unittest.skipUnless(shutil.which("telegraf"), "Telegraf (telegraf) is not on the PATH")
    def test_telegraf(self):
        self.enter(running("telegraf", "--config", self.configuration("telegraf.conf", {"15s": "1s"})))
        collected = 'mem_used_percent{cluster="example"}'
        self.await_samples(collected)
        self.check_nothing_is_missed_while_away(collected)

    @unittest.skipUnless(shutil.which("alloy"), "Grafana Alloy (alloy) is not on the PATH")
    def test_alloy(self):
        self.enter(
            running(
                "alloy",
                "run",
                "--disable-reporting",
                f"--server.http.listen-addr={self.own_address}",
                f"--storage.path={self.directory}/alloy",
                # An interval below 10 s takes a timeout of its own.
                self.configuration("config.alloy", {"15s": "10s"}),
            )
        )
        self.await_samples('alloy_build_info{job="integrations/self", cluster="example"}')
