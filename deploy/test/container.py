"""The rendered pod as a container of `runc`: what a kubelet and containerd would make of it, as far
as one process can show it. The pod's CPUs are given as the static CPU manager gives them.
"""

import json
import os
import subprocess
import tempfile
from pathlib import Path

from chart import CHART, node_container, only, pod
from image import image_config

MIB = 1 << 20
UNITS = {"Ki": 1 << 10, "Mi": MIB, "Gi": 1 << 30}
IO_URING = {"io_uring_setup", "io_uring_enter", "io_uring_register"}
# systemd's default, which containers get from containerd's unit.
MEMLOCK_BYTES = 8 * MIB
ENDED_WITHIN_S = 30


def profile(without=frozenset()):
    """The chart's seccomp profile, less some calls."""
    profile = json.loads((CHART / "files/seccomp.json").read_text())
    for rule in profile["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in without]
    profile["syscalls"] = [rule for rule in profile["syscalls"] if rule["names"]]
    return profile


class Container:
    """A container in its own bundle; ended and removed when it is left."""

    def __init__(self, objects, root, cpus, seccomp, volume_group=None, memlock_bytes=MEMLOCK_BYTES):
        self.directory = tempfile.TemporaryDirectory(prefix="silverback-container-")
        self.bundle = Path(self.directory.name)
        self.id = self.bundle.name
        self.log = self.bundle / "log"
        data, config = self.bundle / "data", self.bundle / "config"
        context = pod(objects)["spec"]["securityContext"]
        # As a volume is mounted: it is root's, and the pod's group may write to it.
        data.mkdir()
        os.chown(data, 0, context["fsGroup"] if volume_group is None else volume_group)
        data.chmod(0o2770)
        config.mkdir()
        for name, text in only(objects, "ConfigMap", "silverback")["data"].items():
            (config / name).write_text(text)
        spec = oci_spec(objects, root, {"data": data, "config": config}, cpus, seccomp)
        spec["linux"]["cgroupsPath"] = f"/{self.id}"
        spec["process"]["rlimits"] = [{"type": "RLIMIT_MEMLOCK", "soft": memlock_bytes, "hard": memlock_bytes}]
        (self.bundle / "config.json").write_text(json.dumps(spec))

    def __enter__(self):
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                ["runc", "run", "--bundle", str(self.bundle), self.id], stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        return self

    def __exit__(self, failure, *_):
        if failure:
            print(f"the container said:\n{self.said()}")
        if not self.has_ended():
            self.runc("kill", self.id, "KILL")
            self.process.wait(ENDED_WITHIN_S)
        self.runc("delete", "--force", self.id)
        self.directory.cleanup()

    def has_ended(self):
        return self.process.poll() is not None

    def wait(self):
        """Its exit code."""
        return self.process.wait(ENDED_WITHIN_S)

    def run_inside(self, *command):
        """Another program in the container, and all that it said, with its exit code."""
        ended = subprocess.run(
            ["runc", "exec", self.id, *command], capture_output=True, text=True, timeout=ENDED_WITHIN_S
        )
        return ended.returncode, ended.stdout + ended.stderr

    def terminate(self):
        """SIGTERM, as the kubelet sends it, and the exit code."""
        self.runc("kill", self.id, "TERM")
        return self.wait()

    def said(self):
        return self.log.read_text()

    def status(self):
        """What the kernel says of the node's process."""
        pid = json.loads(self.runc("state", self.id))["pid"]
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}

    @staticmethod
    def runc(*arguments):
        return subprocess.run(["runc", *arguments], capture_output=True, text=True).stdout


def oci_spec(objects, root, volumes, cpus, seccomp):
    spec, container = pod(objects)["spec"], node_container(objects)
    context, own = spec["securityContext"], container["securityContext"]
    image = image_config()
    assert own["capabilities"] == {"drop": ["ALL"]}
    return {
        "ociVersion": "1.0.2",
        "hostname": "silverback-0",
        "root": {"path": str(root), "readonly": own["readOnlyRootFilesystem"]},
        "process": {
            "user": {
                "uid": context["runAsUser"],
                "gid": context["runAsGroup"],
                "additionalGids": [context["fsGroup"]],
            },
            "args": image["Entrypoint"] + container["args"],
            "env": image["Env"],
            "cwd": "/",
            "capabilities": {kind: [] for kind in ("bounding", "effective", "permitted", "inheritable", "ambient")},
            "noNewPrivileges": not own["allowPrivilegeEscalation"],
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc", "options": ["nosuid", "noexec", "nodev"]},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/sys", "type": "sysfs", "source": "sysfs", "options": ["nosuid", "noexec", "ro"]},
            {"destination": "/sys/fs/cgroup", "type": "cgroup", "source": "cgroup", "options": ["nosuid", "ro"]},
        ]
        + [mount(volume, volumes) for volume in container["volumeMounts"]],
        "linux": {
            # No network namespace: the test made one for itself.
            "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount", "cgroup")],
            "resources": {
                "cpu": {"cpus": cpus, "mems": "0"},
                "memory": {"limit": to_bytes(container["resources"]["limits"]["memory"])},
            },
            "seccomp": seccomp,
        },
    }


def mount(volume, volumes):
    mode = "ro" if volume.get("readOnly") else "rw"
    source = str(volumes[volume["name"]])
    return {
        "destination": volume["mountPath"],
        "type": "bind",
        "source": source,
        "options": ["rbind", "nosuid", "nodev", mode],
    }


def to_bytes(quantity):
    return int(quantity[:-2]) * UNITS[quantity[-2:]]
