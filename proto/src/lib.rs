//! The protocol buffers that Silverback speaks, as prost's types, the expressions in their matchers, and
//! how their labels are shown to people. The server reads the hot ones by hand and has these for everything
//! else; tests hold the two against each other.
#![forbid(unsafe_code)]

/// Remote write 1 and remote read, as Prometheus has them.
#[allow(missing_docs, reason = "generated")]
pub mod prometheus {
    include!(concat!(env!("OUT_DIR"), "/prometheus.rs"));
}

/// Remote write 2.
#[allow(missing_docs, reason = "generated")]
pub mod write_v2 {
    include!(concat!(env!("OUT_DIR"), "/io.prometheus.write.v2.rs"));
}

/// Silverback's own API: `Ingest`, `Query` and `Admin`, with their clients and servers.
#[allow(missing_docs, reason = "generated")]
#[allow(clippy::all, reason = "generated")]
pub mod v1 {
    include!(concat!(env!("OUT_DIR"), "/silverback.v1.rs"));
}

/// Thanos' APIs: `WriteableStore`, by which routers hand samples on; and for Thanos Query `Store`, `Exemplars`, `Query` and
/// `Info`.
#[allow(missing_docs, reason = "generated")]
#[allow(clippy::all, reason = "generated")]
#[rustfmt::skip]
pub mod thanos {
    include!(concat!(env!("OUT_DIR"), "/thanos.rs"));
    pub mod info {
        include!(concat!(env!("OUT_DIR"), "/thanos.info.rs"));
    }
}

/// OpenTelemetry's protocol for metrics, in protobuf and in JSON.
#[allow(missing_docs, reason = "generated")]
#[allow(clippy::all, reason = "generated")]
#[rustfmt::skip]
pub mod otlp {
    pub mod collector {
        pub mod metrics {
            pub mod v1 {
                include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.collector.metrics.v1.rs"));
                include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.collector.metrics.v1.serde.rs"));
            }
        }
    }
    pub mod common {
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.common.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.common.v1.serde.rs"));
        }
    }
    pub mod metrics {
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.metrics.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.metrics.v1.serde.rs"));
        }
    }
    pub mod resource {
        pub mod v1 {
            include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.resource.v1.rs"));
            include!(concat!(env!("OUT_DIR"), "/opentelemetry.proto.resource.v1.serde.rs"));
        }
    }
}

/// A `FileDescriptorSet` of all files, encoded, for reflection.
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));
