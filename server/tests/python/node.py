"""A node of its own for each test, and what is read from it over HTTP."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

READY_WITHIN_S = 20
ENDS_WITHIN_S = 10


class Node:
    """A running node of two shards, with these options more."""

    def __init__(self, *options):
        self.data_dir = tempfile.mkdtemp(prefix="silverback-python-")
        self.log = open(os.path.join(self.data_dir, "log"), "w+")
        self.start(*options)

    def start(self, *options):
        self.address = f"127.0.0.1:{free_port()}"
        arguments = ["--listen", self.address, "--data-dir", os.path.join(self.data_dir, "data"), "--shards", "2"]
        arguments += options
        self.process = subprocess.Popen([os.environ["SILVERBACK"], *arguments], stdout=self.log, stderr=self.log)
        self.wait_until_ready()

    def start_again(self, *options):
        """Ends it, by a kill, and starts it on the same data."""
        self.process.kill()
        self.process.wait()
        self.start(*options)

    def wait_until_ready(self):
        until = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                self.get("/-/ready")
                return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    self.stop()
                    raise AssertionError("the node did not become ready") from error
                time.sleep(0.02)

    def stop(self):
        """Ends the node, and prints its log if it didn't end as it should."""
        self.process.terminate()
        try:
            code = self.process.wait(ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        if code != 0:
            self.log.seek(0)
            print(self.log.read())
        self.log.close()
        shutil.rmtree(self.data_dir)

    def get(self, path):
        """The text of an answer."""
        with urllib.request.urlopen(f"http://{self.address}{path}", timeout=10) as answer:
            return answer.read().decode()

    def export(self, selector):
        """The newest value of each series, by its labels as sorted pairs."""
        lines = self.get("/api/v1/export?" + urllib.parse.urlencode({"match[]": selector})).splitlines()
        series = (json.loads(line) for line in lines)
        return {tuple(sorted(one["metric"].items())): one["values"][-1] for one in series}

    def metric(self, line_start):
        """The value of one of the node's own metrics."""
        values = [line.split()[-1] for line in self.get("/metrics").splitlines() if line.startswith(line_start)]
        return sum(map(float, values))


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class NodeTest(unittest.TestCase):
    """Tests that have a node each."""

    OPTIONS = ()

    def setUp(self):
        self.node = Node(*self.OPTIONS)
        self.addCleanup(self.node.stop)
