"""The chart's configuration against the node's own: what one offers the other takes."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

from chart import CHART, DEPLOY, VALUES, helm, only, render_file

SILVERBACK = os.environ["SILVERBACK"]
# What the chart decides itself.
OF_THE_CHART = {
    "listen",
    "data-dir",
    "allowed-hosts",
    "web-config-file",
    "access-file",
    "admin-listen",
    "probe-listen",
    "objstore-config-file",
}


def silverback(*arguments):
    ended = subprocess.run([SILVERBACK, *arguments], capture_output=True, text=True, env={})
    return ended.returncode, ended.stdout + ended.stderr


def both_take(option, value, values=None):
    """Whether the chart takes a value for an option, and whether the node does."""
    with tempfile.TemporaryDirectory() as directory:
        chart, node = Path(directory) / "values.yaml", Path(directory) / "node.yaml"
        chart.write_text(yaml.safe_dump(values or {"config": {option: value}}))
        node.write_text(yaml.safe_dump({option: value}))
        rendered, _ = helm("template", "sb", CHART, "--kube-version", "1.36.0", "--values", chart)
        code, _ = silverback("check-config", "--config", str(node))
    return rendered, code == 0


class Configuration(unittest.TestCase):
    def test_the_schema_knows_the_node_s_options(self):
        _, text = silverback("check-config")
        options = set(re.findall(r"^([a-z-]+):", text, re.MULTILINE))
        schema = json.loads((CHART / "values.schema.json").read_text())
        self.assertEqual(set(schema["properties"]["config"]["properties"]), options - OF_THE_CHART)

    def test_the_node_takes_every_configuration_that_is_rendered(self):
        for values in VALUES:
            text = only(render_file(values), "ConfigMap", "silverback")["data"]["node.yaml"]
            with self.subTest(values=values.name), tempfile.TemporaryDirectory() as directory:
                file = Path(directory) / "node.yaml"
                file.write_text(text)
                code, told = silverback("check-config", "--config", str(file))
                self.assertEqual(code, 0, told)
                self.assertIn("/var/lib/silverback/data", told)

    def test_names_that_the_chart_takes_the_node_takes(self):
        for names, expected in (
            (["tsdb.example.com", "*.example.com"], True),
            (["*"], True),
            ([], True),
            (["tsdb.example.com:9009"], False),
            (["https://tsdb.example.com"], False),
            (["tsdb.*"], False),
            ([""], False),
        ):
            # Beside one name that is good: an empty list is one for the node, too.
            given = names and [*names, "other.example"]
            with self.subTest(names=names):
                took = both_take("allowed-hosts", given, {"allowedHosts": given})
                self.assertEqual(took, (expected, expected))

    def test_a_value_that_the_chart_takes_the_node_takes_and_what_one_refuses_the_other_does(self):
        taken = {
            "retention": ["26h", "1d2h30m"],
            "shards": ["auto", 1, 128],
            "memory-limit": ["auto", "4Gi", "4 GiB", 4294967296],
            "wal-segment-bytes": ["64MiB", 67108864],
            "max-series": ["unlimited", "5e6", "5_000_000", 5000000],
            "max-exemplars": [0, "0", "1e5", 100000],
            "blocks": ["on", "off"],
            "blocks-delay": [0, "0", "30m"],
            "blocks-retention": ["15d"],
            "blocks-retention-size": [0, "0", "100GiB"],
            "float-chunks": ["xor", "xor2"],
            "tenant": ["default-tenant", "x"],
            "max-connections": [100, "1e4"],
            "rebalance-threshold": [25],
            "self-scrape-interval": [0, "0", "0s", "15s"],
            "log-level": ["info", "info,silverback::wal=debug"],
            "external-labels": [[], ["cluster=eu-1"], ["_a=x=y", "zone=b c"]],
            "replica-label": ["replica", "none", "_r"],
            "tenant-label-name": ["tenant_id"],
            "thanos-query-api": ["on", "off"],
            "ship-bandwidth": ["unlimited", "10MiB", 10485760],
            "ship-on-shutdown": ["off"],
        }
        refused = {
            "retention": [26, "26", "1.5h", "26H"],
            "shards": [0, 129, "four"],
            "memory-limit": ["1k", "4G", "1.5Gi", 0, -1],
            "wal-segment-bytes": ["64M", "big"],
            "max-series": [0, "many", "1.5", -1],
            "max-exemplars": ["unlimited", -1, 1.5],
            "blocks": ["yes", ""],
            "blocks-delay": [30, "1.5h"],
            "blocks-retention": ["forever"],
            "blocks-retention-size": ["100G", -1],
            "float-chunks": ["xor3", "", 2],
            "tenant": ["", "two words", "x" * 257],
            "max-connections": [0, "unlimited", 1.5],
            "rebalance-threshold": [0, 1001, "25%"],
            "shutdown-timeout": [60, "1min"],
            "self-scrape-interval": [15, "often"],
            "log-level": ["", "warning", "info,silverback::wal"],
            "external-labels": [["cluster"], ["a="], ["1a=b"], ["__a=b"], ["a=b,c"], ["a-b=c"]],
            "replica-label": ["", "__r", "9", "a b"],
            "tenant-label-name": ["", "tenant-id"],
            "thanos-query-api": ["", "local"],
            "ship-bandwidth": ["fast", "10M", -1],
            "ship-on-shutdown": ["yes", 1],
        }
        for table, expected in ((taken, True), (refused, False)):
            for option, values in table.items():
                for value in values:
                    with self.subTest(option=option, value=value):
                        self.assertEqual(both_take(option, value), (expected, expected))

    def test_the_unit_waits_for_requests_and_for_the_log(self):
        unit = (DEPLOY / "systemd/silverback.service").read_text()
        (stop_s,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        (timeout_s,) = re.findall(r"^shutdown-timeout: (\d+)s$", (DEPLOY / "systemd/node.yaml").read_text(), re.MULTILINE)
        self.assertGreater(int(stop_s), 2 * int(timeout_s))

    def test_the_node_prints_the_chart_s_profile(self):
        code, text = silverback("seccomp-profile")
        self.assertEqual((code, text), (0, (CHART / "files/seccomp.json").read_text()))
