"""The chart as Helm renders it: what the tests look at."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

DEPLOY = Path(__file__).resolve().parent.parent
CHART = DEPLOY / "chart"
VALUES = sorted((DEPLOY / "test/values").glob("*.yaml"))
KUBERNETES_VERSIONS = ("1.35", "1.36", "1.37")
RELEASE, NAMESPACE = "sb", "ingest"


def helm(*arguments):
    """What a Helm command says, and whether it succeeded."""
    ended = subprocess.run(
        [os.environ["HELM"], *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return ended.returncode == 0, ended.stdout


def render(*arguments, kubernetes="1.36"):
    """The objects of a release."""
    done, text = helm(
        "template", RELEASE, CHART, "--namespace", NAMESPACE, "--kube-version", f"{kubernetes}.0", *arguments
    )
    if not done:
        raise AssertionError(text)
    return [document for document in yaml.safe_load_all(text) if document]


def render_file(values, kubernetes="1.36"):
    """The objects of a release with a file of values."""
    return render("--values", values, kubernetes=kubernetes)


def notes(*arguments):
    """What an install prints. Helm prints it with a cluster alone, so it becomes an object of a copy."""
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(shutil.copytree(CHART, Path(directory) / "silverback"))
        (copy / "templates/NOTES.txt").rename(copy / "files/NOTES.txt")
        (copy / "templates/notes.yaml").write_text('notes: {{ tpl (.Files.Get "files/NOTES.txt") . | toJson }}\n')
        only_notes = ("--show-only", "templates/notes.yaml", "--kube-version", "1.36.0")
        done, text = helm("template", RELEASE, copy, *only_notes, *arguments)
    if not done:
        raise AssertionError(text)
    return yaml.safe_load(text)["notes"]


def only(objects, kind, suffix=""):
    """The one object of a kind, or the one whose name ends so."""
    (found,) = [o for o in objects if o["kind"] == kind and o["metadata"]["name"].endswith(suffix)]
    return found


def pod(objects):
    """The node's pod template."""
    return only(objects, "StatefulSet")["spec"]["template"]


def node_container(objects):
    """The only container of the node's pod."""
    (container,) = pod(objects)["spec"]["containers"]
    return container
