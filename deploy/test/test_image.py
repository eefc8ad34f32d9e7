"""The image: what is in it, as whom it runs, and that its version is the node's and the chart's."""

import json
import os
import re
import stat
import subprocess
import tempfile
import unittest
from pathlib import Path

import yaml

from chart import CHART, DEPLOY, pod, render
from image import image_config, whole_config

ROOT = Path(os.environ["IMAGE_ROOT"])
PACK = DEPLOY / "image/pack"


class Image(unittest.TestCase):
    def test_it_holds_the_node_silverctl_their_libraries_and_no_other_program(self):
        programs = [path for path in ROOT.rglob("*") if path.is_file() and path.stat().st_mode & 0o111]
        libraries = [path for path in programs if ".so" in path.name]
        named = {ROOT / "usr/bin/silverback", ROOT / "usr/bin/silverctl"}
        self.assertEqual({path for path in programs if path not in libraries}, named)
        self.assertLessEqual(len(libraries), 5)

    def test_nothing_in_it_raises_rights_or_can_be_changed_by_the_node(self):
        for path in ROOT.rglob("*"):
            mode = path.stat().st_mode
            self.assertFalse(mode & (stat.S_ISUID | stat.S_ISGID), path)
            if path.is_file():
                self.assertFalse(mode & 0o022, path)

    def test_it_runs_as_the_user_that_the_chart_names(self):
        context = pod(render())["spec"]["securityContext"]
        self.assertEqual(image_config()["User"], f"{context['runAsUser']}:{context['runAsGroup']}")

    def test_its_version_is_the_node_s_and_the_chart_s(self):
        labels = image_config()["Labels"]
        told = subprocess.run([os.environ["SILVERBACK"], "--version"], capture_output=True, text=True).stdout
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        self.assertEqual(labels["org.opencontainers.image.version"], told.split()[1])
        self.assertEqual(labels["org.opencontainers.image.version"], chart["appVersion"])

    def test_it_is_for_the_architecture_of_the_node_whichever_machine_packs_it(self):
        # The kernel's numbers of the machines, where an ELF header has them.
        for machine, architecture in ((62, "amd64"), (183, "arm64")):
            with tempfile.TemporaryDirectory() as directory:
                root, packed = Path(directory, "root"), Path(directory, "image.tar")
                root.mkdir()
                (root / "node").write_bytes(b"\x7fELF" + bytes(14) + machine.to_bytes(2, "little"))
                subprocess.run([PACK, root, packed, "silverback:check", "/node"], check=True)
                self.assertEqual(whole_config(packed)["architecture"], architecture)

    def test_each_base_is_named_by_its_content_and_fits_the_toolchain_that_is_needed(self):
        dockerfile = (DEPLOY / "image/Dockerfile").read_text()
        arguments = dict(re.findall(r"^ARG (\w+)=(\S+)$", dockerfile, re.MULTILINE))
        bases = re.findall(r"^FROM (\S+)", dockerfile, re.MULTILINE)
        bases = [re.sub(r"\$\{(\w+)}", lambda found: arguments[found[1]], base) for base in bases]
        self.assertEqual(bases[-1], "scratch")
        needed = re.search(r'^rust-version = "(.+)"$', (DEPLOY.parent / "Cargo.toml").read_text(), re.MULTILINE)[1]
        for base in bases[:-1]:
            self.assertRegex(base, rf"^rust:{re.escape(needed)}-slim-\w+@sha256:[0-9a-f]{{64}}$")

    def test_its_bill_of_materials_names_crates_and_debian_s_packages(self):
        bill = json.loads((ROOT / "usr/share/silverback/sbom.cdx.json").read_text())
        names = {component["name"] for component in bill["components"]}
        # The node's, silverctl's, Debian's.
        self.assertLessEqual({"glommio", "ratatui", "ca-certificates"}, names)
        # Beside the programs, or in them.
        self.assertTrue({"libc6", "libc6-dev"} & names)
        self.assertNotIn("proptest", names, "what only tests use isn't in the binary")
