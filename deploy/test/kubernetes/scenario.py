"""What the chart does in a cluster, step by step: install, pin, take writes, be killed, drained,
upgraded, rolled back, refused, uninstalled, locked. Runs where `node` has started the cluster.
"""

import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path

TEST = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TEST))

from certificates import make_certificate  # noqa: E402
from node import Node  # noqa: E402

CHART = TEST.parent / "chart"
SENDER = TEST.parent / "senders/prometheus.yaml"
NAMESPACE, RELEASE, POD = "ingest", "silverback", "silverback-0"
SETTINGS = {
    "image.registry": "registry.local",
    "image.pullPolicy": "Never",
    "resources.requests.cpu": "1",
    "resources.limits.cpu": "1",
    "resources.requests.memory": "1Gi",
    "resources.limits.memory": "1Gi",
    "persistence.size": "1Gi",
    "persistence.storageClass": "",
    "config.log-level": "info",
    "probes.startup.periodSeconds": "1",
    "probes.readiness.periodSeconds": "1",
    "preStopSeconds": "2",
}
SERVICE = f"{RELEASE}.{NAMESPACE}.svc"
TOKEN = "0123456789abcdef0123456789abcdef"
ACCESS = "tokens: [{name: agents, token_file: agents.token, scopes: [write, read]}]"
LOCKED = {
    "tls__secretName": "silverback-tls",
    "tls__clientAuthType": "RequireAndVerifyClientCert",
    "access__secretName": "silverback-access",
    "access__accessKey": "access.yml",
}
PATIENCE_S = 90


def run(*command, given=None):
    words = [str(word) for word in command]
    ended = subprocess.run(words, input=given, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if ended.returncode != 0:
        raise AssertionError(f"{command}:\n{ended.stdout}")
    return ended.stdout


def kubectl(*arguments, namespace=NAMESPACE, given=None):
    return run("kubectl", "--namespace", namespace, *arguments, given=given)


def get(*arguments):
    return json.loads(kubectl("get", "--output", "json", *arguments))


def helm(*arguments, wait=True):
    waiting = ("--wait", "--timeout", f"{PATIENCE_S}s") if wait else ()
    return run(os.environ["HELM"], *arguments, "--namespace", NAMESPACE, *waiting)


def with_settings(**changed):
    settings = SETTINGS | {name.replace("__", "."): value for name, value in changed.items()}
    return [word for name, value in settings.items() for word in ("--set", f"{name}={value}")]


def await_that(what, holds):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        found = holds()
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError(f"never: {what}")


def pod():
    found = [item for item in get("pods")["items"] if item["metadata"]["name"] == POD]
    return found[0] if found else None


def is_ready(found):
    conditions = found["status"].get("conditions", []) if found else []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def ready_node(other_than=None):
    """The node in a pod that is ready, and isn't the one with this uid."""

    def found():
        now = pod()
        is_other = now and now["metadata"]["uid"] != other_than
        return now if is_other and is_ready(now) else None

    return Node(f"{await_that('a pod that is ready', found)['status']['podIP']}:9009")


def node_pid():
    """The node's process on this machine: the cluster runs in this namespace of processes."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            words = (directory / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # It has ended meanwhile.
        if words[:2] == [b"/usr/bin/silverback", b"--config"]:
            return int(directory.name)
    raise AssertionError("no process of the node")


class Writer(threading.Thread):
    """Writes one sample after another, each until it is acknowledged, to whichever pod is there."""

    def __init__(self, name, node):
        super().__init__(daemon=True)
        self.series, self.node = name, node
        self.acknowledged, self.refused = [], 0
        self.has_to_end = threading.Event()

    def run(self):
        value = 0
        while not self.has_to_end.is_set():
            try:
                status, _ = self.node.write(self.series, float(value))
            except OSError:
                status = None
            if status == 200:
                self.acknowledged.append(float(value))
                value += 1
            else:
                self.refused += 1
            time.sleep(0.01)

    @contextmanager
    def writing(self):
        self.start()
        yield self
        time.sleep(1)
        self.has_to_end.set()
        self.join()

    def check(self):
        """All that was acknowledged is there; what wasn't may be there, too."""
        missing = set(self.acknowledged) - set(self.node.values(self.series))
        assert not missing, f"{len(missing)} of {len(self.acknowledged)} acknowledged samples are missing"
        print(f"    {len(self.acknowledged)} acknowledged, {self.refused} tries that weren't; none is missing")


@contextmanager
def prometheus(node):
    """A Prometheus outside of the pod, with the configuration that the guides give."""
    with tempfile.TemporaryDirectory() as directory:
        text = SENDER.read_text().replace("silverback.ingest.svc:9009", node.address).replace("15s", "1s")
        file = Path(directory) / "prometheus.yaml"
        file.write_text(text)
        process = subprocess.Popen(
            ["prometheus", f"--config.file={file}", f"--storage.tsdb.path={directory}/data"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(30)


class ServiceTls(ssl.SSLContext):
    """Reaches a pod by its address and wants the certificate of its Service: no name leads anywhere here."""

    def wrap_socket(self, *arguments, **named):
        return super().wrap_socket(*arguments, **named | {"server_hostname": SERVICE})

    def shown(self, node):
        """The number of the certificate that a node shows."""
        host, port = node.address.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as plain, self.wrap_socket(plain) as encrypted:
            return encrypted.getpeercert()["serialNumber"]


class Authority:
    """A CA in a directory, and what it signs."""

    def __init__(self, directory):
        self.directory = directory
        make_certificate(directory, "ca", "v3_ca")

    def sign(self, name, host):
        """NAME.crt, in place of one that there was."""
        by = ["-CA", f"{self.directory}/ca.crt", "-CAkey", f"{self.directory}/ca.key"]
        make_certificate(self.directory, name, "usr_cert", *by, "-addext", f"subjectAltName=DNS:{host}")

    def write_secret(self):
        """As cert-manager makes it, and renews it."""
        files = {"tls.crt": "server.crt", "tls.key": "server.key", "ca.crt": "ca.crt"}
        data = {key: Path(self.directory, file).read_text() for key, file in files.items()}
        write_secret("silverback-tls", "kubernetes.io/tls", data)

    def tls(self, client=None):
        """For a client that believes it; with a certificate where there is one of this name."""
        tls = ServiceTls(ssl.PROTOCOL_TLS_CLIENT)
        tls.load_verify_locations(f"{self.directory}/ca.crt")
        if client:
            tls.load_cert_chain(f"{self.directory}/{client}.crt", f"{self.directory}/{client}.key")
        return tls


def write_secret(name, kind, data):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "stringData": data}
    kubectl("apply", "--filename", "-", given=json.dumps(secret))


# --- the steps, in their order ---


def the_chart_is_installed_and_the_pod_ready():
    helm("install", RELEASE, CHART, "--create-namespace", *with_settings())
    profile = pod()["spec"]["securityContext"]["seccompProfile"]["localhostProfile"]
    assert Path("/var/lib/kubelet/seccomp", profile).exists(), profile


def the_pod_has_a_cpu_of_its_own():
    # CPU 0 is the system's: the kubelet's reservedSystemCPUs.
    topology = json.loads(kubectl("exec", POD, "--", "/usr/bin/silverback", "topology", "--json"))
    assert [shard["cpu"] for shard in topology["shards"]] == [1], topology
    assert topology["quota"] is None, topology
    allowed = [line for line in Path(f"/proc/{node_pid()}/status").read_text().splitlines() if "Cpus_allowed_l" in line]
    assert allowed == ["Cpus_allowed_list:\t1"], allowed


def the_pod_is_reached_by_its_services_names_and_by_no_other():
    node = ready_node()
    for name in (f"{RELEASE}.{NAMESPACE}.svc:9009", f"{POD}.{RELEASE}-pods.{NAMESPACE}.svc.cluster.local:9009"):
        status, text = node.get("/-/ready", host=name)
        assert status == 200, text
    status, text = node.get("/-/ready", host="evil.example")
    assert status == 403 and "--allowed-hosts" in text, text


def the_pod_satisfies_pod_security_s_restricted_profile():
    # A StatefulSet is only warned of; a pod is refused.
    spec = get("statefulset", RELEASE)["spec"]["template"]["spec"]
    spec["serviceAccountName"] = "default"
    spec["volumes"].append({"name": "data", "emptyDir": {}})
    kubectl("create", "namespace", "restricted")
    kubectl("label", "namespace", "restricted", "pod-security.kubernetes.io/enforce=restricted")
    account = ("get", "serviceaccounts", "--output", "name")
    await_that("a service account", lambda: "default" in kubectl(*account, namespace="restricted"))
    probe = json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": spec})
    kubectl("create", "--dry-run=server", "--filename", "-", namespace="restricted", given=probe)


def a_prometheus_outside_writes_into_it():
    node = ready_node()
    with prometheus(node):
        await_that("samples of Prometheus", lambda: node.values('prometheus_build_info{cluster="example"}'))


def a_killed_node_loses_nothing():
    with Writer("killed", ready_node()).writing() as writer:
        time.sleep(1)
        os.kill(node_pid(), signal.SIGKILL)
        await_that("a restart", lambda: pod()["status"]["containerStatuses"][0]["restartCount"] == 1)
        writer.node = ready_node()
    writer.check()


def a_deleted_pod_is_replaced_on_its_volume_with_nothing_lost():
    before = pod()["metadata"]["uid"]
    with Writer("deleted", ready_node()).writing() as writer:
        time.sleep(1)
        kubectl("delete", "pod", POD, "--wait=false")
        writer.node = ready_node(other_than=before)
    writer.check()
    assert writer.node.values("killed"), "what was written before is there, too"


def an_upgrade_and_a_rollback_change_the_node_s_options():
    for done, retention in (
        (["upgrade", RELEASE, CHART, *with_settings(config__retention="3h")], "3h"),
        (["rollback", RELEASE], "26h"),
    ):
        before = pod()["metadata"]["uid"]
        helm(*done)
        ready_node(other_than=before)
        told = kubectl("exec", POD, "--", "/usr/bin/silverback", "check-config", "--config", "/etc/silverback/node.yaml")
        assert f"retention: {retention} " in told, told


def the_runtime_s_default_profile_is_refused_with_what_to_do():
    settings = with_settings(seccomp__profile="RuntimeDefault")
    helm("upgrade", RELEASE, CHART, *settings, wait=False)

    def ended():
        statuses = (pod() or {"status": {}})["status"].get("containerStatuses", [])
        ends = [status.get("state", {}).get("terminated") or status.get("lastState", {}).get("terminated") for status in statuses]
        return next((end for end in ends if end and end["exitCode"] == 2), None)

    end = await_that("exit code 2", ended)
    assert "io_uring is forbidden to this container" in end["message"], end
    helm("rollback", RELEASE, wait=False)
    # What is stuck isn't repaired by another revision.
    kubectl("delete", "pod", POD)
    ready_node()


def an_uninstalled_release_leaves_its_volume_and_another_goes_on_with_it():
    helm("uninstall", RELEASE)
    await_that("no pods", lambda: not get("pods")["items"])
    (claim,) = get("persistentvolumeclaims")["items"]
    assert (claim["metadata"]["name"], claim["status"]["phase"]) == (f"data-{POD}", "Bound"), claim
    left = get("services,statefulsets,daemonsets,configmaps,poddisruptionbudgets,networkpolicies,serviceaccounts")
    names = {item["metadata"]["name"] for item in left["items"]}
    assert names <= {"default", "kube-root-ca.crt"}, names
    helm("install", RELEASE, CHART, *with_settings())
    assert ready_node().values("deleted")
    helm("uninstall", RELEASE)


def locked_doors_open_to_who_may_and_a_renewed_certificate_is_taken_in_without_a_restart():
    with tempfile.TemporaryDirectory() as directory:
        authority = Authority(directory)
        authority.sign("server", SERVICE)
        authority.sign("client", "agent.example")
        authority.write_secret()
        write_secret("silverback-access", "Opaque", {"access.yml": ACCESS, "agents.token": TOKEN})
        helm("install", RELEASE, CHART, *with_settings(**LOCKED))
        address, tls = ready_node().address, authority.tls("client")
        nobody = Node(address, authority.tls())
        try:
            raise AssertionError(f"without a certificate: {nobody.get('/-/healthy')}")
        except OSError:
            pass  # No handshake, no answer.
        assert Node(address, tls).write("locked", 1)[0] == 401, "without a token"
        assert Node(address.replace(":9009", ":9010")).get("/metrics")[0] == 404, "probes alone are answered there"
        node = Node(address, tls, {"Authorization": f"Bearer {TOKEN}"})
        former, before = tls.shown(node), pod()
        with Writer("locked", node).writing() as writer:
            authority.sign("server", SERVICE)
            authority.write_secret()
            await_that("the renewed certificate", lambda: tls.shown(node) != former)
        writer.check()
        assert writer.refused == 0, f"{writer.refused} writes failed"
        now = pod()
        assert now["metadata"]["uid"] == before["metadata"]["uid"], "another pod"
        assert now["status"]["containerStatuses"][0]["restartCount"] == 0, "a restart"
    helm("uninstall", RELEASE)


STEPS = [
    the_chart_is_installed_and_the_pod_ready,
    the_pod_has_a_cpu_of_its_own,
    the_pod_is_reached_by_its_services_names_and_by_no_other,
    the_pod_satisfies_pod_security_s_restricted_profile,
    a_prometheus_outside_writes_into_it,
    a_killed_node_loses_nothing,
    a_deleted_pod_is_replaced_on_its_volume_with_nothing_lost,
    an_upgrade_and_a_rollback_change_the_node_s_options,
    the_runtime_s_default_profile_is_refused_with_what_to_do,
    an_uninstalled_release_leaves_its_volume_and_another_goes_on_with_it,
    locked_doors_open_to_who_may_and_a_renewed_certificate_is_taken_in_without_a_restart,
]


def main():
    for step in STEPS:
        began = time.monotonic()
        print(step.__name__.replace("_", " "), flush=True)
        try:
            step()
        except AssertionError:
            print(kubectl("describe", "pods"), flush=True)
            raise
        print(f"    held, in {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
