"""OpenTelemetry's SDK exports metrics as it does to any collector; they are stored as Prometheus names them."""

import time

from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import Compression
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpExporter
from opentelemetry.sdk.metrics import Counter, MeterProvider
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
import grpc

from node import NodeTest

RESOURCE = {"service.name": "shop", "service.namespace": "eu", "service.instance.id": "i-1", "host.name": "h1"}


def provider_of(exporter):
    """A provider that exports on request, and never by itself."""
    reader = PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)
    return MeterProvider([reader], resource=Resource(RESOURCE), shutdown_on_exit=False)


class OtlpTest(NodeTest):
    def check_stored(self, exporter):
        provider = provider_of(exporter)
        meter = provider.get_meter("test")
        meter.create_gauge("room.temperature", unit="Cel").set(21.5, {"room.name": "kitchen"})
        counter = meter.create_counter("orders", unit="{order}")
        histogram = meter.create_histogram(
            "latency", unit="s", explicit_bucket_boundaries_advisory=[0.1, 1.0]
        )
        counter.add(3, {"kind": "web"})
        for seconds in [0.05, 0.5, 0.5, 7.0]:
            histogram.record(seconds)
        self.assertTrue(provider.force_flush())
        # Cumulative: what came before counts again.
        counter.add(4, {"kind": "web"})
        self.assertTrue(provider.force_flush())
        provider.shutdown()
        self.check_series()

    def check_series(self):
        stored = self.node.export('{job="eu/shop",instance="i-1"}')
        identity = {"job": "eu/shop", "instance": "i-1"}

        def value(name, **labels):
            return stored.get(tuple(sorted({"__name__": name, **identity, **labels}.items())))

        self.assertEqual(value("room_temperature_celsius", room_name="kitchen"), 21.5)
        self.assertEqual(value("orders_total", kind="web"), 7)
        buckets = [value("latency_seconds_bucket", le=le) for le in ["0.1", "1", "+Inf"]]
        self.assertEqual(buckets, [1, 3, 4], stored)
        self.assertEqual(value("latency_seconds_count"), 4)
        self.assertAlmostEqual(value("latency_seconds_sum"), 8.05)
        info = next(labels for labels in stored if ("__name__", "target_info") in labels)
        self.assertIn(("host_name", "h1"), info)
        self.assertEqual(len(stored), 8, stored)

    def test_http_stores_each_kind_of_metric(self):
        self.check_stored(HttpExporter(f"http://{self.node.address}/v1/metrics"))

    def test_http_with_gzip_stores_the_same(self):
        endpoint = f"http://{self.node.address}/api/v1/otlp/v1/metrics"
        self.check_stored(HttpExporter(endpoint, compression=Compression.Gzip))

    def test_grpc_stores_the_same(self):
        self.check_stored(GrpcExporter(self.node.address, insecure=True))

    def test_grpc_with_gzip_stores_the_same(self):
        self.check_stored(GrpcExporter(self.node.address, insecure=True, compression=grpc.Compression.Gzip))

    def test_delta_temporality_is_added_up(self):
        temporality = {Counter: AggregationTemporality.DELTA}
        endpoint = f"http://{self.node.address}/v1/metrics"
        provider = provider_of(HttpExporter(endpoint, preferred_temporality=temporality))
        orders = provider.get_meter("test").create_counter("orders")
        for count in (3, 4):
            orders.add(count)
            provider.force_flush()
            # Two reports of one millisecond are one.
            time.sleep(0.01)
        provider.shutdown()
        stored = self.node.export('{__name__="orders_total"}')
        self.assertEqual(list(stored.values()), [7])
