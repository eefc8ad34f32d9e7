"""The chart's configuration against the node's own: what one offers the other takes."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

from chart import CHART, VALUES, only, render_file

SILVERBACK = os.environ["SILVERBACK"]
# What the chart decides itself.
OF_THE_CHART = {"listen", "data-dir"}


def silverback(*arguments):
    ended = subprocess.run([SILVERBACK, *arguments], capture_output=True, text=True, env={})
    return ended.returncode, ended.stdout + ended.stderr


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

    def test_the_node_prints_the_chart_s_profile(self):
        code, text = silverback("seccomp-profile")
        self.assertEqual((code, text), (0, (CHART / "files/seccomp.json").read_text()))
