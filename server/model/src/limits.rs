//! Every bound of the node in one place, related to each other at compile time.
//!
//! What an operator may change is in the node's configuration; its defaults are here.
mod beside;
pub mod memory;
#[cfg(test)]
mod network;

use std::time::Duration;

use crate::Sample;

pub use memory::{GivingWay, MemoryLimitError, MemoryPlan, QueryMemoryError};

/// Cells of a node: a fixed fraction each of the series-id space, for the life of a data directory.
pub const CELL_COUNT: usize = 1024;
const _: () = assert!(CELL_COUNT.is_power_of_two() && CELL_COUNT <= 1 << 16);

/// Shards (pinned cores) at most.
pub const SHARDS_MAX: usize = 128;
const _: () = assert!(SHARDS_MAX <= CELL_COUNT);

/// A request body as it arrives, in bytes.
pub const BODY_BYTES_MAX: usize = 32 << 20;
/// A request body after decompression, in bytes.
pub const DECODED_BYTES_MAX: usize = 32 << 20;
const _: () = assert!(DECODED_BYTES_MAX < 1 << 30, "a label span keeps offsets in 30 bits");

/// A request's head, in bytes.
pub const HEADER_BYTES_MAX: usize = 32 << 10;
/// An HTTP/2 request's head as HTTP/2 counts it, in bytes: names, values, and 32 for each field. A field may take
/// a hundred in memory, and one on the wire.
pub const STREAM_HEAD_BYTES_MAX: usize = 16 << 10;
/// Fields of a request's head. HTTP/1 has the same bound.
pub const HEAD_FIELDS_MAX: usize = 100;
/// What one HTTP/2 connection's requests in flight may take with their heads of the connection's own place: a usual
/// one always fits, whatever other connections hold.
pub const OWN_HEADS_BYTES: usize = 12 << 10;
/// What an HTTP/1 request's first line may grow by where its raw quotes are percent-encoded, in bytes. As much of what
/// came with it may wait to be read.
pub const LINE_GROWTH_BYTES_MAX: usize = 8 << 10;
const _: () = assert!(LINE_GROWTH_BYTES_MAX <= OWN_HEADS_BYTES, "HTTP/1 has it in place of HTTP/2's heads");
/// What a connection takes by itself, in bytes: its task and its protocol's state, one HTTP/2 stream included.
pub const CONNECTION_BYTES: usize = 40 << 10;
const _: () = assert!(OWN_HEADS_BYTES < CONNECTION_BYTES / 3);
/// What is buffered of a connection that doesn't read ahead of its requests, in bytes, where memory is small: a
/// head that is on its way, the buffer of the last request, or what is left of an HTTP/2 window ...
pub(crate) const HEAD_BYTES_MIN: usize = HEADER_BYTES_MAX + (8 << 10);
/// ... and where it is not.
pub(crate) const HEAD_BYTES_MAX: usize = 512 << 10;
/// What is buffered of a connection ahead of its requests in flight, in bytes, where memory is small, ...
pub(crate) const READING_BYTES_MIN: usize = 128 << 10;
/// ... and where it is not.
pub(crate) const READING_BYTES_MAX: usize = 4 << 20;
/// Of that, what a frame takes while it comes; the rest is the connection's window.
pub const FRAME_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(READING_BYTES_MIN - FRAME_BYTES_MAX > u16::MAX as usize, "HTTP/2's own least window");
const _: () = assert!(READING_BYTES_MIN > HEAD_BYTES_MIN);
/// What an encrypted connection takes beside that, in bytes: its keys, a record that hasn't come whole, or what of one
/// its reader has no room for yet.
pub const TLS_CONNECTION_BYTES: usize = 32 << 10;
/// A TLS handshake in flight, in bytes: a client may send certificates of 64 KiB.
pub const HANDSHAKE_BYTES: usize = 96 << 10;
/// TLS handshakes in flight on one core. With a small memory limit it is less: [`MemoryPlan`].
pub const HANDSHAKES_MAX: usize = 256;

/// A request's `Authorization` header, in bytes.
pub const CREDENTIAL_BYTES_MAX: usize = 4 << 10;
/// Credentials of which a core knows that they are right, and as many of which it knows that they are wrong.
pub const KNOWN_CREDENTIALS_MAX: usize = 1024;
/// Passwords of the whole node that wait to be checked.
pub const CREDENTIAL_CHECKS_MAX: usize = 64;
// An executor's fixed part has room for all this: a digest is in a map and in a line, and of what waits each core
// has the words once more.
const _: () =
    assert!(2 * KNOWN_CREDENTIALS_MAX * 200 + 2 * CREDENTIAL_CHECKS_MAX * CREDENTIAL_BYTES_MAX <= 1 << 20);
/// Tokens of the access file: all are compared with each one that comes.
pub const TOKENS_MAX: usize = 256;

/// Labels of one series.
pub const LABELS_MAX: usize = 128;
/// A label name, in bytes.
pub const LABEL_NAME_BYTES_MAX: usize = 1024;
/// A label value, in bytes.
pub const LABEL_VALUE_BYTES_MAX: usize = 8192;

/// Samples of one write request. In a body a sample may take two bytes, in a part it takes sixteen, and as many more
/// with a start timestamp.
pub const REQUEST_SAMPLES_MAX: u64 = 1 << 20;
/// A request's parts in bytes: 16 of a sample and of its start timestamp, 32 of a series, which has a sample at least.
pub(crate) const PART_BYTES_MAX: usize = REQUEST_SAMPLES_MAX as usize * (16 + 16 + 32);

/// Characters that an exemplar's labels have, names and values together, as OpenMetrics has it.
pub const EXEMPLAR_LABEL_CHARS_MAX: usize = 128;
/// Exemplars of one write request: each takes 48 bytes in a part, and its labels written out. Further ones aren't kept.
pub const REQUEST_EXEMPLARS_MAX: u64 = 16 << 10;
/// Exemplars of the node, by default (Prometheus: as many).
pub const EXEMPLARS_DEFAULT: usize = 100_000;
/// A shard's exemplars take this fraction of its budget at most, however many may be kept.
pub const EXEMPLAR_SHARE: usize = 16;
/// Exemplars of one series: beyond this its own oldest make room, so that they go with it at one go.
pub const SERIES_EXEMPLARS_MAX: u32 = 512;

/// The name of a metric of which metadata is kept, in bytes.
pub const METADATA_NAME_BYTES_MAX: usize = LABEL_NAME_BYTES_MAX;
/// A metric's help and unit, together, in bytes.
pub const METADATA_TEXT_BYTES_MAX: usize = 4096;
/// Bytes of metadata of one write request that its core passes on: what it knows isn't passed on again.
pub const REQUEST_METADATA_BYTES_MAX: usize = 4 << 20;
/// Metrics of which a shard keeps metadata.
pub const METADATA_METRICS_MAX: usize = 100_000;
/// Different metadata of one metric: its senders may not agree.
pub const METADATA_PER_METRIC_MAX: usize = 8;
/// A shard's metadata takes this fraction of its budget at most.
pub const METADATA_SHARE: usize = 32;

/// A data point or a resource of an OTLP request, in bytes: beyond this its labels are too large.
pub const OTLP_POINT_BYTES_MAX: usize = 2 << 20;
const _: () = assert!(OTLP_POINT_BYTES_MAX > LABELS_MAX * (LABEL_NAME_BYTES_MAX + LABEL_VALUE_BYTES_MAX));
/// An OTLP request in JSON, in bytes: it is read at one go, and its objects take a multiple of it.
pub const OTLP_JSON_BYTES_MAX: usize = 1 << 20;
/// Nested objects and lists of a JSON request: what serde_json reads.
pub const OTLP_JSON_DEPTH_MAX: usize = 127;
/// What an object of a JSON request takes for each byte of it, at most.
pub const OTLP_JSON_EXPANSION: usize = 128;

/// A line of a request that is lines of text, in bytes: it is read at one go.
pub const LINE_BYTES_MAX: usize = 256 << 10;

/// Symbols of one remote write 2 request.
pub const SYMBOLS_MAX: usize = 1 << 20;
/// What the symbols of one request take beside its body, in bytes: a place and a hash each.
pub const SYMBOL_BYTES_MAX: usize = SYMBOLS_MAX * (8 + 16);
/// Label sets of one remote write 2 request that are written out to be hashed, in bytes. A few
/// references can stand for a million times their own length.
pub const EXPANDED_LABEL_BYTES_MAX: usize = 4 * DECODED_BYTES_MAX;
/// Label sets of remote write that one core knows again.
pub const ID_CACHE_ENTRIES_MAX: usize = 1 << 20;
/// What one of them takes; half of it where its labels came sorted in remote write 1.
pub const ID_CACHE_ENTRY_BYTES: usize = 32;
const _: () = assert!(ID_CACHE_ENTRIES_MAX.is_power_of_two());

/// How far ahead of the node's clock a sample may lie, in ms (Prometheus: 10 minutes).
pub const FUTURE_MS_MAX: i64 = 10 * 60 * 1000;

/// Requests in flight from one core to another: also the room of each lane, so that a reply
/// always has its place.
pub const LANE_CAPACITY: usize = 1024;
const _: () = assert!(LANE_CAPACITY.is_power_of_two());
/// Of these, writes, ...
pub const LANE_WRITES: usize = 768;
/// ... reads, ...
pub const LANE_READS: usize = 192;
/// ... and what else a shard is asked: none of the three takes the others' places.
pub const LANE_CONTROL: usize = 64;
const _: () = assert!(LANE_WRITES + LANE_READS + LANE_CONTROL == LANE_CAPACITY);

/// How long a migration copies a cell that is served meanwhile.
pub const MIGRATION_COPY_MAX: Duration = Duration::from_secs(60);
/// How long a migration may keep a cell from taking writes.
pub const MIGRATION_PAUSE_MAX: Duration = Duration::from_secs(5);
/// How long a write waits for a cell that is handed over, before its sender is asked to try again.
pub const MOVED_WAIT_MAX: Duration = Duration::from_secs(15);
const _: () = assert!(MIGRATION_PAUSE_MAX.as_secs() < MOVED_WAIT_MAX.as_secs());
/// How long a deletion waits for cells that are on their way, all together: longer than the migration of one takes.
pub const DELETION_WAIT_MAX: Duration =
    Duration::from_secs(2 * (MIGRATION_COPY_MAX.as_secs() + MIGRATION_PAUSE_MAX.as_secs()));
/// How long a cell that was handed over is kept for the reads from before.
pub const REMAINS_READ_MAX: Duration = Duration::from_secs(10 * 60);

/// Samples after which a chunk is cut.
pub const CHUNK_SAMPLES: usize = 120;
/// A chunk's data in bytes at most.
pub const CHUNK_BYTES_MAX: usize = 1024;
/// A chunk never crosses a multiple of this, in ms.
pub const CHUNK_RANGE_MS: i64 = 2 * 60 * 60 * 1000;
const _: () = assert!(CHUNK_RANGE_MS < 1 << 24, "a chunk's deltas fit a u32");

/// Buckets of one native histogram, of both sides together, and of one of its chunks: spans of later histograms widen
/// a chunk's own. OpenTelemetry's SDKs make 160 by default.
pub const HISTOGRAM_BUCKETS_MAX: usize = 4096;
/// Spans of one side of a native histogram. Those of a chunk have a bucket each.
pub const HISTOGRAM_SPANS_MAX: usize = HISTOGRAM_BUCKETS_MAX;
/// Bounds of a native histogram with custom buckets.
pub const HISTOGRAM_BOUNDS_MAX: usize = HISTOGRAM_BUCKETS_MAX;
/// The size in bytes that a chunk of native histograms should get. It is cut at twice as much at the latest, ...
pub const HISTOGRAM_CHUNK_BYTES: usize = 1024;
/// ... but only when it has so many samples, or its range ends.
pub const HISTOGRAM_CHUNK_SAMPLES_MIN: usize = 10;
/// Samples of one series that a request brings in any order are sorted by so many at a time, in a copy with their start
/// timestamps.
pub const SORTED_SAMPLES_MAX: usize = 32 * 1024;
/// What a shard takes for that, what sorts them included.
pub(crate) const SORTING_BYTES_MAX: usize = 2 * SORTED_SAMPLES_MAX * size_of::<(bool, Sample, i64)>();
/// The lists that a shard reads histograms into keep so many bytes for the next part: of the largest histogram they take
/// several times as much.
pub const HISTOGRAM_SCRATCH_BYTES_KEPT: usize = 64 << 10;
/// What a shard takes to look histograms of one chunk up that are sent again: of the chunk's histograms, which have four
/// bits each at least, time and hash, in a list that has doubled.
pub(crate) const HISTOGRAM_LOOKUP_BYTES_MAX: usize = 2 * (2 * HISTOGRAM_CHUNK_BYTES * 8 / 4) * (8 + 8);

/// Series of which a shard keeps where a sample was found that was sent again, so that the next one is found there: in
/// pages that are made as they are needed. Of others the chunks are read from their begin.
pub const RESUMED_PAGES: usize = 256;
/// Series of one page.
pub const RESUMED_PAGE_SERIES: usize = 256;
/// What all of them take, counted with the series.
pub const RESUMED_BYTES_MAX: usize = RESUMED_PAGES * RESUMED_PAGE_SERIES * 64;

/// Series of which a shard keeps the histograms of the chunk that it looked into last, for senders who send again; ...
pub const HISTOGRAM_LOOKUP_SERIES: usize = 8192;
/// ... and what all of these may take, counted with the series. Of others a chunk is decoded for each histogram.
pub const HISTOGRAM_LOOKUPS_BYTES_MAX: usize = 4 << 20;
const _: () = assert!(HISTOGRAM_LOOKUP_BYTES_MAX <= HISTOGRAM_LOOKUPS_BYTES_MAX / 8, "many series fit in");

/// Cursors open on one shard at a time.
pub const CURSORS_MAX: usize = 512;

/// Decompressed bodies that a core keeps for later requests.
pub const BODIES_KEPT: usize = 64;
/// A body that grew beyond this many bytes is not kept.
pub const BODY_KEPT_BYTES_MAX: usize = 4 << 20;
/// Bytes of the write requests that one core has in flight, as they arrive and decompressed. With a
/// small memory limit it is less: [`MemoryPlan`].
pub const IN_FLIGHT_BYTES_MAX: usize = 256 << 20;
const _: () = assert!(IN_FLIGHT_BYTES_MAX >= BODY_BYTES_MAX + DECODED_BYTES_MAX);

/// Bytes of a shard's changes that may wait for the disk where writes are acknowledged from memory.
pub const LOG_BACKLOG_BYTES_MAX: usize = 1 << 20;

/// How long the disk may take for a group of the log before writes are refused: far longer than any that works.
pub const DISK_ANSWER_MAX: Duration = Duration::from_secs(5);

/// Series of one gRPC stream.
pub const STREAM_REFS_MAX: usize = 1 << 20;
/// Labels that one gRPC stream defines, in bytes.
pub const STREAM_DEFINITION_BYTES_MAX: usize = 256 << 20;
const _: () = assert!(
    STREAM_REFS_MAX < 1 << 30 && STREAM_DEFINITION_BYTES_MAX < 1 << 30,
    "a label span keeps both in 30 bits"
);
/// Batches of one gRPC stream that are in flight.
pub const STREAM_BATCHES_MAX: usize = 64;
/// Samples of one gRPC stream from which on none of its batches is taken apart before others are
/// answered: parts in flight are to stay near the core. As messages they take a fifth.
pub const STREAM_SAMPLES_MAX: usize = 16 << 10;
/// Samples of one batch: taken apart in about 200 µs.
pub const STREAM_BATCH_SAMPLES_MAX: usize = 16 << 10;
/// A message of the gRPC API, in bytes, decompressed.
pub const GRPC_MESSAGE_BYTES_MAX: usize = 4 << 20;
/// Refusals of one response: what is beyond goes into the next.
pub const STREAM_REFUSALS_MAX: usize = 16 << 10;
const _: () = assert!(STREAM_REFUSALS_MAX * 32 < GRPC_MESSAGE_BYTES_MAX);

/// A group of the write-ahead log as it is written, in bytes. Its lengths have 32 bits.
pub const WAL_FRAME_PAYLOAD_MAX: usize = 1 << 30;
const _: () = assert!(WAL_FRAME_PAYLOAD_MAX < u32::MAX as usize);

/// Series that are decoded between two looks at the clock, whatever is in them.
pub const DECODE_STEP_SERIES: usize = 32;

/// A read request's body, as it arrives and decompressed, in bytes: it holds matchers, no samples.
pub const READ_REQUEST_BYTES_MAX: usize = 512 << 10;
/// Selectors of one request, all together, in bytes.
pub const SELECTOR_BYTES_MAX: usize = 128 << 10;
const _: () = assert!(3 * SELECTOR_BYTES_MAX < READ_REQUEST_BYTES_MAX, "percent-encoded, too");
/// Expressions of one request, all together and compiled, in bytes.
pub const EXPRESSION_BYTES_MAX: usize = 512 << 10;
/// Parameters of one request.
pub const READ_PARAMS_MAX: usize = 256;
/// Bytes of the reads that one core has in flight: their requests, and answers that are made whole
/// before they are sent. With a small memory limit it is less: [`MemoryPlan`].
pub(crate) const READ_BYTES_MAX: usize = 256 << 20;
/// Reads that one core has in flight at most, whatever is configured. Each has a request to each shard.
pub(crate) const READS_PER_CORE_MAX: usize = 128;
const _: () = assert!(READS_PER_CORE_MAX <= LANE_READS);
/// Batches that one read holds at most, of all shards together, in bytes: what its answer leaves, but for an eighth of them
/// for where each series is.
pub const READ_BATCHES_BYTES: usize = (READ_BYTES_MIN - STREAM_PIECES * STREAM_PIECE_BYTES) * 8 / 9;
/// A batch is no smaller than this, however many shards there are, in bytes.
pub const READ_BATCH_BYTES_MIN: usize = 4 << 10;
/// What a read takes on its core at least, in bytes: batches, and what of its answer waits for its client.
pub const READ_BYTES_MIN: usize = 1 << 20;
/// Pieces of an answer that there are at a time: one that is made, three that wait for their connection, and one that it sends.
const STREAM_PIECES: usize = 5;
/// What reads of blocks on disk hold and what is kept of their files, of the whole node, in bytes. With a small memory limit
/// it is less: [`MemoryPlan`].
pub(crate) const BLOCK_BYTES_MAX: usize = 1 << 30;
/// Reads that wait on one core for others to end.
pub const READS_WAITING_MAX: usize = 64;
/// Queries of one remote read, or selectors of one request to the HTTP API.
pub const READ_QUERIES_MAX: usize = 32;
const _: () = assert!(READ_QUERIES_MAX < CURSORS_MAX, "one request alone can't use up a shard's cursors");
/// Matchers of one read: each expression among them is compiled.
pub const READ_MATCHERS_MAX: usize = 256;
/// Steps of a range query, as in Prometheus: more points of a series than a graph shows.
pub const QUERY_STEPS_MAX: usize = 11_000;
/// Selectors of one expression: each is a read of its own, one after the other.
pub const QUERY_SELECTORS_MAX: usize = 256;
/// Samples that one query's evaluation holds at a time, by default (Prometheus: as many).
pub const QUERY_SAMPLES_DEFAULT: usize = 50_000_000;
/// What a reader takes of its answer a second at least, in bytes, while others wait for their turn ...
pub const READER_BYTES_PER_S_MIN: usize = 64 << 10;
/// ... measured over so long.
pub const READER_GRACE: Duration = Duration::from_secs(3);
/// Bytes of an answer that are made before they are sent on. With the series that fills them and the head of an HTTP chunk
/// they are mostly no more than a connection sends at once (`SEND_BYTES_MAX`, 64 KiB): or else each piece would be a call and
/// a packet more.
pub const STREAM_BUFFER_BYTES: usize = 60 << 10;
/// What a piece has room for, in bytes.
pub const STREAM_PIECE_BYTES: usize = 64 << 10;
/// A series that an expression gives, in one gRPC message, in bytes: histograms at each step may be large.
pub const EVALUATED_SERIES_BYTES_MAX: usize = 128 << 20;
/// Names or values that are answered in one gRPC message, in bytes: what clients take by default.
pub const UNARY_ANSWER_BYTES_MAX: usize = 4 << 20;
/// A frame of a chunked remote read, counted as labels and chunks (Prometheus: 1 MiB).
pub const READ_FRAME_BYTES: usize = 1 << 20;
/// Entries of each list of the index's statistics (Prometheus: 10,000).
pub const TSDB_STATUS_ENTRIES_MAX: usize = 10_000;

/// Active queries that a list of them has at most: an answer of some megabyte.
pub const ACTIVE_QUERIES_SHOWN_MAX: usize = 1000;
