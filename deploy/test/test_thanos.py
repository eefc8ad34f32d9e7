"""deploy/thanos/run with Thanos itself: what is written to the router is read back through Query, also while a node is away
and after it has come back.

Left out where there is no thanos on the PATH.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
import urllib.parse
import urllib.request
from pathlib import Path

from chart import DEPLOY
from test_senders import running

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
