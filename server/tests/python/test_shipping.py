"""Blocks go to S3, as moto speaks its protocol, whole, through a network that cuts connections and loses answers."""

import json
import logging
import os
import socket
import ssl
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

from moto.server import ThreadedMotoServer

from node import NodeTest

BUCKET = "metrics"
LABELS = ["--external-labels", "cluster=eu-1"]
# moto asks for who it is, and doesn't check the signature of this.
SIGNED = "AWS4-HMAC-SHA256 Credential=id/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"
SHIPPED_WITHIN_S = 60
# More than a part of 8 MiB.
PADDING_BYTES = 9 << 20


class Network(threading.Thread):
    """Passes connections on, and cuts some: in the middle of what is sent, or before the answer."""

    # Bytes of a connection's requests after which it is cut; None: it isn't; -1: its answer is lost.
    CUTS = [0, 100, -1, None, 300_000, -1, 2_000_000, -1, None, 8_500_000, -1, 1000, -1]

    def __init__(self, port, tls=None):
        super().__init__(daemon=True)
        self.to_port, self.tls, self.cut, self.accepted = port, tls, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]

    def run(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            cuts = [] if self.tls else self.CUTS
            limit = cuts[self.accepted] if self.accepted < len(cuts) else None
            self.accepted += 1
            threading.Thread(target=self.serve, args=(client, limit), daemon=True).start()

    def serve(self, client, limit):
        try:
            client = self.tls.wrap_socket(client, server_side=True) if self.tls else client
        except OSError:
            return client.close()
        server = socket.create_connection(("127.0.0.1", self.to_port))
        answers = threading.Thread(target=self.answer, args=(server, client, limit), daemon=True)
        answers.start()
        sent = 0
        try:
            while piece := client.recv(1 << 16):
                sent += len(piece)
                if limit is not None and 0 <= limit < sent:
                    self.cut += 1
                    break
                server.sendall(piece)
        except OSError:
            pass
        shut(client, server)
        answers.join()
        client.close()
        server.close()

    def answer(self, server, client, limit):
        try:
            while piece := server.recv(1 << 16):
                if limit == -1:
                    self.cut += 1
                    break
                client.sendall(piece)
        except OSError:
            pass
        shut(client, server)


def shut(*ends):
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


# Of each request a line.
logging.getLogger("werkzeug").setLevel(logging.ERROR)


class ShippingTest(NodeTest):
    OPTIONS = ("--admin-api", "full", "--self-scrape-interval", "0")

    def setUp(self):
        super().setUp()
        self.moto = ThreadedMotoServer(port=0, verbose=False)
        self.moto.start()
        self.addCleanup(self.moto.stop)
        self.port = self.moto.get_host_and_port()[1]
        self.s3("PUT", "")

    def begin_network(self, tls=None):
        self.network = Network(self.port, tls)
        self.network.start()
        self.addCleanup(self.network.listener.close)

    def s3(self, method, key):
        """What S3 answers; None: there is no such object."""
        headers = {"Authorization": SIGNED}
        url = f"http://127.0.0.1:{self.port}/{BUCKET}/{key}"
        request = urllib.request.Request(url, method=method, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.read()
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise

    def block(self):
        """A block of the node's own, made larger than one part, where its blocks are."""
        url = f"http://{self.node.address}"
        urllib.request.urlopen(f"{url}/api/v1/import/prometheus", data=b"up 1\n", timeout=10).close()
        urllib.request.urlopen(f"{url}/api/v1/admin/tsdb/snapshot", data=b"", timeout=10).close()
        data = Path(self.node.data_dir, "data")
        (block,) = data.glob("snapshots/*/*")
        (data / "blocks").mkdir()
        block = block.rename(data / "blocks" / block.name)
        with open(block / "chunks/000001", "ab") as chunks:
            chunks.write(os.urandom(PADDING_BYTES))
        return block

    def options(self, **http):
        config = tempfile.NamedTemporaryFile("w", suffix=".yml")
        self.addCleanup(config.close)
        endpoint = f"127.0.0.1:{self.network.port}"
        insecure = self.network.tls is None
        settings = {"bucket": BUCKET, "endpoint": endpoint, "insecure": insecure, "access_key": "id", "secret_key": "key"}
        # Requests that hang for want of an answer are seen soon.
        settings["http_config"] = {"response_header_timeout": "5s", **http}
        json.dump({"type": "S3", "config": settings, "prefix": "tsdb/blocks"}, config)
        config.flush()
        return [*LABELS, "--objstore-config-file", config.name]

    def test_a_block_arrives_whole_though_connections_are_cut(self):
        self.begin_network()
        block = self.block()
        self.node.start_again(*self.OPTIONS, *self.options())
        until = time.monotonic() + SHIPPED_WITHIN_S
        prefix = f"tsdb/blocks/{block.name}"
        while (meta := self.s3("GET", f"{prefix}/meta.json")) is None:
            self.assertLess(time.monotonic(), until, self.node.get("/metrics"))
            time.sleep(0.05)
        # Whatever has its meta.json is whole at that moment.
        for file in ("chunks/000001", "index"):
            self.assertEqual(self.s3("GET", f"{prefix}/{file}"), (block / file).read_bytes(), file)
        thanos = json.loads(meta)["thanos"]
        self.assertEqual(thanos["labels"]["cluster"], "eu-1")
        self.assertEqual(thanos["files"][0]["size_bytes"], (block / "chunks/000001").stat().st_size)
        self.assertGreater(self.network.cut, 5, "the network was to be bad")
        while self.node.metric("silverback_shipper_uploads_total") != 1:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        self.assertGreater(self.node.metric("silverback_shipper_upload_failures_total"), 0)
        uploaded = json.loads((block.parent / "thanos.shipper.json").read_text())
        self.assertEqual(uploaded, {"version": 1, "uploaded": [block.name]})

    def test_a_bucket_is_verified_by_the_ca_that_the_file_names(self):
        certificate = Path(self.node.data_dir, "bucket.crt")
        key = certificate.with_suffix(".key")
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
            + ["-subj", "/CN=bucket", "-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=CA:FALSE"]
            + ["-keyout", key, "-out", certificate],
            check=True,
            capture_output=True,
        )
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        self.begin_network(tls)
        block = self.block()
        self.node.start_again(*self.OPTIONS, *self.options())
        until = time.monotonic() + SHIPPED_WITHIN_S
        while self.node.metric("silverback_shipper_upload_failures_total") == 0:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
        self.assertIsNone(self.s3("GET", f"tsdb/blocks/{block.name}/meta.json"), "nobody vouches for it")
        self.node.start_again(*self.OPTIONS, *self.options(tls_config={"ca_file": str(certificate)}))
        while self.s3("GET", f"tsdb/blocks/{block.name}/meta.json") is None:
            self.assertLess(time.monotonic(), until)
            time.sleep(0.05)
