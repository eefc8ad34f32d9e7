"""The senders' configurations, each with the sender itself: what it scrapes arrives at a node."""

import os
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
ARRIVED_WITHIN_S = 30


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


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
        node = self.enter(
            running(os.environ["SILVERBACK"], "--listen", self.node.address, "--data-dir", str(self.directory / "node"))
        )
        self.node.wait_ready(lambda: node.poll() is not None)

    def configuration(self, name, own_address):
        """A file as it is told to the sender, with this test's addresses and a quick interval."""
        text = (SENDERS / name).read_text()
        for told, here in ((NODE, self.node.address), (own_address, self.own_address), ("15s", "1s")):
            self.assertIn(told, text)
            text = text.replace(told, here)
        file = self.directory / name
        file.write_text(text)
        return str(file)

    def await_samples(self, selector):
        deadline = time.monotonic() + ARRIVED_WITHIN_S
        while time.monotonic() < deadline:
            if self.node.values(selector):
                return
            time.sleep(0.2)
        self.fail(f"no samples of {selector}")

    def test_prometheus(self):
        self.enter(
            running(
                "prometheus",
                "--config.file=" + self.configuration("prometheus.yaml", "localhost:9090"),
                f"--storage.tsdb.path={self.directory}/prometheus",
                f"--web.listen-address={self.own_address}",
            )
        )
        self.await_samples('prometheus_build_info{job="prometheus", cluster="example"}')

    @unittest.skipUnless(shutil.which("vmagent"), "vmagent (Debian's victoria-metrics) is not here")
    def test_vmagent(self):
        self.enter(
            running(
                "vmagent",
                "-promscrape.config=" + self.configuration("vmagent.yaml", "localhost:8429"),
                f"-remoteWrite.tmpDataPath={self.directory}/vmagent",
                f"-remoteWrite.url=http://{self.node.address}/api/v1/write",
                f"-httpListenAddr={self.own_address}",
            )
        )
        self.await_samples('vm_app_version{job="vmagent", cluster="example"}')
