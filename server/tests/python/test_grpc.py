"""A client made by grpcio from the node's own .proto files: health, reflection, writes, and reads bit for bit."""

import itertools
import math
import struct
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase
from silverback.v1 import admin_pb2, admin_pb2_grpc, ingest_pb2, ingest_pb2_grpc, labels_pb2, query_pb2, query_pb2_grpc

from node import NodeTest

STALE_NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF0000000000002))[0]
VALUES = [1.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1, STALE_NAN]


def bits(value):
    return struct.unpack("<Q", struct.pack("<d", value))[0]


def definition(ref, **labels):
    labels = [labels_pb2.Label(name=name, value=value) for name, value in labels.items()]
    return ingest_pb2.SeriesDefinition(ref=ref, labels=labels)


class GrpcTest(NodeTest):
    def setUp(self):
        super().setUp()
        self.channel = grpc.insecure_channel(self.node.address)
        self.addCleanup(self.channel.close)
        self.start_ms = int(time.time() * 1000) - 3_600_000

    def batch(self, number, ref_deltas, values, base_ms):
        """One sample a second after `base_ms`, one after the other."""
        deltas = [1000] * len(values)
        return ingest_pb2.Batch(
            number=number,
            ref_deltas=ref_deltas,
            base_timestamp_ms=base_ms,
            timestamp_deltas_ms=deltas,
            values=values,
        )

    def select(self, name):
        """The series of a metric: host → [(time, bits of the value)]."""
        matcher = query_pb2.Matcher(kind=query_pb2.MATCHER_KIND_EQUAL, name="__name__", value=name)
        everything = query_pb2.TimeRange(min_ms=0, max_ms=2**62)
        request = query_pb2.SelectRequest(matchers=[matcher], range=everything)
        found = {}
        for response in query_pb2_grpc.QueryStub(self.channel).Select(request, timeout=10):
            for series in response.series:
                host = next(label.value for label in series.labels if label.name == "host")
                times = itertools.accumulate(series.columns.timestamp_deltas_ms)
                samples = zip(times, map(bits, series.columns.values), strict=True)
                found.setdefault(host, []).extend(samples)
        return found

    def written(self, values, base_ms):
        return [(base_ms + 1000 * (i + 1), bits(value)) for i, value in enumerate(values)]

    def test_the_node_is_healthy(self):
        answer = health_pb2_grpc.HealthStub(self.channel).Check(health_pb2.HealthCheckRequest(), timeout=10)
        self.assertEqual(answer.status, health_pb2.HealthCheckResponse.SERVING)

    def test_services_and_their_messages_are_found_by_reflection(self):
        reflected = ProtoReflectionDescriptorDatabase(self.channel)
        services = set(reflected.get_services())
        expect = {"silverback.v1.Ingest", "silverback.v1.Query", "silverback.v1.Admin", "grpc.health.v1.Health"}
        self.assertLessEqual(expect, services)
        file = reflected.FindFileContainingSymbol("silverback.v1.Ingest")
        self.assertEqual(file.name, "silverback/v1/ingest.proto")

    def test_one_write_is_read_back_bit_for_bit(self):
        series = [definition(0, __name__="odd", host="a"), definition(1, __name__="odd", host="b")]
        batch = self.batch(0, [0] * len(VALUES) + [1], VALUES + [2.5], self.start_ms)
        request = ingest_pb2.WriteRequest(series=series, batch=batch)
        answer = ingest_pb2_grpc.IngestStub(self.channel).Write(request, timeout=10)
        self.assertEqual((answer.samples_written, list(answer.refusals)), (len(VALUES) + 1, []))
        samples = self.written(VALUES + [2.5], self.start_ms)
        self.assertEqual(self.select("odd"), {"a": samples[:-1], "b": samples[-1:]})

    def test_a_stream_is_acknowledged_and_read_back_bit_for_bit(self):
        batches = 20
        step_ms = 1000 * len(VALUES)

        def requests():
            for number in range(1, batches + 1):
                series = [definition(7, __name__="streamed", host="a")] if number == 1 else []
                base_ms = self.start_ms + (number - 1) * step_ms
                refs = [7] + [0] * (len(VALUES) - 1)
                yield ingest_pb2.StreamRequest(series=series, batch=self.batch(number, refs, VALUES, base_ms))

        responses = list(ingest_pb2_grpc.IngestStub(self.channel).Stream(requests(), timeout=20))
        self.assertEqual(responses[0].terms.durability, ingest_pb2.DURABILITY_DISK)
        self.assertEqual(responses[-1].acknowledged_number, batches)
        self.assertEqual(sum(response.samples_written for response in responses), batches * len(VALUES))
        self.assertEqual(self.select("streamed"), {"a": self.written(VALUES * batches, self.start_ms)})
        shards = admin_pb2_grpc.AdminStub(self.channel).Shards(admin_pb2.ShardsRequest(), timeout=10).shards
        self.assertEqual(len(shards), 2)

    def test_a_refusal_has_its_reason(self):
        request = ingest_pb2.WriteRequest(
            series=[definition(0, __name__="old", host="a")], batch=self.batch(0, [0], [1.0], 0)
        )
        answer = ingest_pb2_grpc.IngestStub(self.channel).Write(request, timeout=10)
        self.assertEqual(answer.samples_written, 0)
        self.assertEqual([r.reason for r in answer.refusals], [ingest_pb2.REFUSAL_REASON_TOO_OLD])
        with self.assertRaises(grpc.RpcError) as refused:
            list(query_pb2_grpc.QueryStub(self.channel).Select(query_pb2.SelectRequest(), timeout=10))
        self.assertEqual(refused.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
