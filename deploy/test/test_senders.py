"""The senders' configurations, each with the sender itself: what it scrapes or is sent arrives at a node; at one that is
open, and at one that takes a client certificate and credentials.

All but Prometheus are left out where they aren't on the PATH.
"""

import itertools
import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
import unittest
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

from certificates import make_certificate
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

TOKEN = "0123456789abcdef0123456789abcdef"
PASSWORD = "silver"
WEB_CONFIGURATION = """
tls_server_config:
  cert_file: server.crt
  key_file: server.key
  client_auth_type: RequireAndVerifyClientCert
  client_ca_file: silverback-ca.crt
basic_auth_users:
  agent: $2b$10$h.3Kigrt88wBqHtgD/gZROYxO25vauMLyTCSWdZR1UyzAwDIrg6ZG
"""
ACCESS = """
tokens:
  - {name: agents, token_file: silverback.token, scopes: [write, read]}
users:
  agent: [write]
"""
PROMETHEUS_FILES = ["/etc/prometheus/silverback-ca.crt", "client.crt", "client.key"]


def uncommented(text, begins):
    """With the comment that begins so as the configuration that it has, a block to its brace, and how many there were."""
    block = r"(?:.*\{\n(?:[ \t]*// \t.*\n)+[ \t]*// \})?"
    comment = rf"(?m)^[ \t]*(?:#|//) {re.escape(begins)}{block}.*$"
    return re.subn(comment, lambda found: re.sub(r"(?m)^([ \t]*)(?:#|//) ", r"\1", found[0]), text)


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
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            # A sender whose samples nobody takes goes on trying, Alloy for a minute: it doesn't outlive its test.
            process.kill()
            process.wait()
            raise


class SenderTest(unittest.TestCase):
    """A node, and what a test of a sender asks of it."""

    def setUp(self):
        cleanup = ExitStack()
        self.addCleanup(cleanup.close)
        self.enter = cleanup.enter_context
        self.directory = Path(self.enter(tempfile.TemporaryDirectory(prefix="silverback-senders-")))
        self.own_address = free_address()
        self.options = []
        self.node = self.make_node(free_address())
        self.start_node()

    def make_node(self, address):
        return Node(address)

    def told_address(self):
        return {NODE: self.node.address}

    def start_node(self):
        data = str(self.directory / "node")
        self.process = self.enter(
            running(os.environ["SILVERBACK"], "--listen", self.node.address, "--data-dir", data, *self.options)
        )
        self.node.wait_ready(lambda: self.process.poll() is not None)

    @contextmanager
    def node_away(self):
        self.process.terminate()
        self.process.wait(30)
        yield
        self.start_node()

    def configuration(self, name, here, locked=()):
        """A file as the sender gets it, with `here` in place of what it names, and this test's node.

        `locked` are the comments, by how they begin, that a locked node takes as they are.
        """
        text = (SENDERS / name).read_text()
        for begins in locked:
            text, taken = uncommented(text, begins)
            self.assertEqual(taken, 1, begins)
        for told, ours in (here | self.told_address()).items():
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

    def start_prometheus(self, here, locked=()):
        own = {"localhost:9090": self.own_address, "15s": "1s"}
        self.enter(
            running(
                "prometheus",
                "--config.file=" + self.configuration("prometheus.yaml", own | here, locked),
                f"--storage.tsdb.path={self.directory}/prometheus",
                f"--web.listen-address={self.own_address}",
            )
        )
        self.await_samples('prometheus_build_info{job="prometheus", cluster="example"}')

    def start_vmagent(self, here, *more_flags):
        own = {
            "localhost:8429": self.own_address,
            "=vmagent.yaml": f"={self.directory}/vmagent.yaml",
            "/var/lib/vmagent": f"{self.directory}/vmagent",
            "15s": "1s",
        }
        configuration = self.configuration("vmagent.yaml", own | here)
        flags = re.findall(r"-[\w.]+=\S+", Path(configuration).read_text())
        self.enter(running("vmagent", *flags, *more_flags, f"-httpListenAddr={self.own_address}"))
        scraped = 'vm_app_version{job="vmagent", cluster="example"}'
        self.await_samples(scraped)
        return scraped

    def start_collector(self, here, locked=()):
        own = {"0.0.0.0:4317": free_address(), "0.0.0.0:4318": self.own_address}
        configuration = self.configuration("otel-collector.yaml", own | here, locked)
        # Without its own metrics: they would be served at a port that may be taken.
        self.enter(running(COLLECTOR, f"--config={configuration}", "--set=service.telemetry.metrics.level=none"))
        self.await_that(lambda: listens(self.own_address), "the collector doesn't listen")
        return Node(self.own_address)

    def start_alloy(self, here, locked=(), *flags):
        # An interval below 10 s takes a timeout of its own.
        configuration = self.configuration("config.alloy", {"15s": "10s"} | here, locked)
        addresses = [f"--server.http.listen-addr={self.own_address}", f"--storage.path={self.directory}/alloy"]
        self.enter(running("alloy", "run", "--disable-reporting", *flags, *addresses, configuration))
        self.await_samples('alloy_build_info{job="integrations/self", cluster="example"}')


HAS_VMAGENT = unittest.skipUnless(shutil.which("vmagent"), "vmagent (Debian's victoria-metrics) is not on the PATH")
HAS_COLLECTOR = unittest.skipUnless(
    COLLECTOR, "the OpenTelemetry Collector (otelcol or otelcol-contrib) is not on the PATH"
)
HAS_CONTRIB = unittest.skipUnless(
    COLLECTOR and b"basicauth" in subprocess.run([COLLECTOR, "components"], capture_output=True).stdout,
    "no Collector with its extensions for credentials is on the PATH",
)
HAS_ALLOY = unittest.skipUnless(shutil.which("alloy"), "Grafana Alloy (alloy) is not on the PATH")


class OpenNode(SenderTest):
    def check_nothing_is_missed_while_away(self, selector):
        with self.node_away():
            time.sleep(AWAY_S)
        returned = time.time()
        self.await_that(lambda: self.node.times_s(selector)[-1] > returned, "nothing comes any more")
        # What was kept meanwhile may come after what is new: a sender has several requests in flight.
        self.await_that(lambda: self.longest_gap_s(selector) < MISSED_S, "what was kept while the node was away is missing")

    def test_prometheus(self):
        self.start_prometheus({})

    @HAS_VMAGENT
    def test_vmagent(self):
        self.check_nothing_is_missed_while_away(self.start_vmagent({}))

    @HAS_COLLECTOR
    def test_collector(self):
        collector = self.start_collector({})
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

    @HAS_ALLOY
    def test_alloy(self):
        self.start_alloy({})

    @HAS_ALLOY
    def test_alloy_by_remote_write_2(self):
        self.start_alloy({}, ["protobuf_message"], "--stability.level=experimental")


class LockedNode(SenderTest):
    """Mutual TLS, and a token or a password, by the lines that the senders' files have for it."""

    def make_node(self, address):
        self.make_certificates()
        self.write("silverback.token", TOKEN)
        self.write("silverback.password", PASSWORD)
        web, access = self.write("web.yml", WEB_CONFIGURATION), self.write("access.yml", ACCESS)
        self.options = ["--web-config-file", web, "--access-file", access]
        tls = ssl.create_default_context(cafile=self.path("silverback-ca.crt"))
        tls.load_cert_chain(self.path("client.crt"), self.path("client.key"))
        return Node(address, tls, {"Authorization": f"Bearer {TOKEN}"})

    def told_address(self):
        return {f"http://{NODE}": f"https://{self.node.address}"}

    def path(self, name):
        return str(self.directory / name)

    def write(self, name, text):
        Path(self.path(name)).write_text(text)
        return self.path(name)

    def make_certificates(self):
        make_certificate(self.directory, "silverback-ca", "v3_ca")
        signed = ["-CA", self.path("silverback-ca.crt"), "-CAkey", self.path("silverback-ca.key")]
        for name in ("server", "client"):
            make_certificate(self.directory, name, "usr_cert", *signed, "-addext", "subjectAltName=IP:127.0.0.1")

    def of_here(self, *names):
        """These files as the configuration names them, and where this test has them."""
        return {name: self.path(Path(name).name) for name in names}

    def test_nobody_writes_without_both(self):
        stranger = Node(self.node.address, ssl.create_default_context(cafile=self.path("silverback-ca.crt")))
        with self.assertRaises(OSError):
            stranger.get("/-/ready")
        nameless = Node(self.node.address, self.node.tls)
        self.assertEqual(nameless.write("pushed", 1)[0], 401)

    def test_prometheus_with_a_token(self):
        files = self.of_here("/etc/prometheus/silverback.token", *PROMETHEUS_FILES)
        self.start_prometheus(files, locked=["authorization: {credentials_file", "tls_config: {"])

    def test_prometheus_with_a_password(self):
        files = self.of_here("/etc/prometheus/silverback.password", *PROMETHEUS_FILES)
        self.start_prometheus(files, locked=["basic_auth: {", "tls_config: {"])

    @HAS_VMAGENT
    def test_vmagent_with_a_token(self):
        self.start_vmagent({}, f"-remoteWrite.bearerTokenFile={self.path('silverback.token')}", *self.vmagent_tls())

    @HAS_VMAGENT
    def test_vmagent_with_a_password(self):
        password = f"-remoteWrite.basicAuth.passwordFile={self.path('silverback.password')}"
        self.start_vmagent({}, "-remoteWrite.basicAuth.username=agent", password, *self.vmagent_tls())

    def vmagent_tls(self):
        files = {"CA": "silverback-ca.crt", "Cert": "client.crt", "Key": "client.key"}
        return [f"-remoteWrite.tls{what}File={self.path(file)}" for what, file in files.items()]

    def check_collector(self, *credentials, file=()):
        files = self.of_here(*file, "silverback-ca.crt", "client.crt", "client.key")
        collector = self.start_collector(files, locked=["tls: {", *credentials])
        self.assertEqual(collector.write("pushed", 1)[0], 200)
        self.await_samples("pushed")

    @HAS_COLLECTOR
    def test_collector_with_a_header(self):
        # For this test alone: a node that finds it in its environment does not start.
        self.enter(mock.patch.dict(os.environ, REMOTE_WRITE_TOKEN=TOKEN))
        self.check_collector("headers: {")

    def check_collector_by_extension(self, name, file):
        own = [f"extensions: {{{name}", f"auth: {{authenticator: {name}", f"extensions: [{name}"]
        self.check_collector(*own, file=[f"/etc/otelcol/{file}"])

    @HAS_CONTRIB
    def test_collector_with_a_token(self):
        self.check_collector_by_extension("bearertokenauth", "silverback.token")

    @HAS_CONTRIB
    def test_collector_with_a_password(self):
        self.check_collector_by_extension("basicauth", "silverback.password")

    def check_alloy(self, credentials, file):
        files = self.of_here(f"/etc/alloy/{file}", "/etc/alloy/silverback-ca.crt", "client.crt", "client.key")
        self.start_alloy(files, locked=[credentials, "tls_config"])

    @HAS_ALLOY
    def test_alloy_with_a_token(self):
        self.check_alloy("bearer_token_file", "silverback.token")

    @HAS_ALLOY
    def test_alloy_with_a_password(self):
        self.check_alloy("basic_auth", "silverback.password")
