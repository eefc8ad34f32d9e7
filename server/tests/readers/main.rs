//! Twenty clients in a closed loop on each reading endpoint in turn, beside paced writes of known series,
//! on nodes with little memory: writes go on, in time, the node stays within its limit, and after the
//! readers have hung up, most in the middle of their answers, memory is back. Writes are acknowledged from memory: what
//! is measured are the cores, and not a disk that other processes use as well.
//!
//! `READERS_STRICT=1` holds latencies to their ratio alone, on a machine that is quiet: the node then has a CPU for
//! itself, and of its clients the writer comes first, so that the clients' own work isn't measured, which takes root.
//! `--ignored` reads a million series.

mod precedence;
mod turns;
mod writes;

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use prost::Message;
use silverback_proto::prometheus::label_matcher::Type;
use silverback_proto::prometheus::{LabelMatcher, Query, ReadRequest};
use silverback_test_support::http::{self, Kept};
use silverback_test_support::{Binary, eventually};

use turns::CpuTurns;
use writes::{Latencies, Writer, now_ms};

const MIB: usize = 1 << 20;
const CLIENTS: usize = 20;
/// Each with a pod of its own: what a label's values cost.
const SERIES: usize = 150_000;
/// Some have the longest value that there is, too.
const LONG_VALUES: usize = 1000;
/// How long each endpoint is read.
const READ_FOR: Duration = Duration::from_secs(3);
/// The same where a 99th percentile alone decides: of a hundred and fifty writes it is the last but one.
const STRICTLY_READ_FOR: Duration = Duration::from_secs(10);
/// How many times as long as alone a write may take.
const RATIO_MAX: f64 = 3.0;
/// What holds a core does so each time; a disk or a core that others hold for a moment doesn't.
const TRIES: usize = 3;
/// What clients and others on the same CPUs may add, for each time as long that the node has to wait for them as it runs.
const SLACK: Duration = Duration::from_secs(1);

/// A request again and again.
struct Endpoint {
    name: &'static str,
    method: &'static str,
    path: String,
    body: Vec<u8>,
}

fn endpoints() -> Vec<Endpoint> {
    let get = |name, path: &str| Endpoint { name, method: "GET", path: path.to_owned(), body: Vec::new() };
    let post = |name, kind| Endpoint {
        name,
        method: "POST",
        path: "/api/v1/read".to_owned(),
        body: remote_read(kind),
    };
    let start_s = now_ms() / 1000 - 7200;
    vec![
        get("names", "/api/v1/labels"),
        get("names of a range", &format!("/api/v1/labels?start={start_s}")),
        get("values", "/api/v1/label/pod/values"),
        get("values of a range", &format!("/api/v1/label/pod/values?start={start_s}")),
        get("values, searched", "/api/v1/label/pod/values?match[]=%7Bpod=~%22.*[13579].*2.*%22%7D"),
        get("long values", "/api/v1/label/note/values"),
        get("long values, searched", "/api/v1/series?match[]=%7Bnote=~%22(.*a.%7B9%7Db)%2B.*z%22%7D"),
        get("series", "/api/v1/series?match[]=%7Bpod!=%22%22%7D"),
        get("export", "/api/v1/export?match[]=%7Bpod!=%22%22%7D"),
        get("status", "/api/v1/status/tsdb?limit=10000"),
        post("chunks", 1),
        post("samples", 0),
    ]
}

fn remote_read(kind: i32) -> Vec<u8> {
    let all = LabelMatcher { r#type: Type::Neq as i32, name: "pod".to_owned(), value: String::new() };
    let query = Query { end_timestamp_ms: i64::MAX, matchers: vec![all], ..Query::default() };
    let request = ReadRequest { queries: vec![query], accepted_response_types: vec![kind] };
    snap::raw::Encoder::new().compress_vec(&request.encode_to_vec()).unwrap()
}

/// The connections of clients. At the end all hang up, in the middle of answers, but for the first, whose answer is to
/// come.
struct Clients<'a> {
    node: &'a Binary,
    /// One for each client; none once they have hung up.
    open: Mutex<Option<[Option<TcpStream>; CLIENTS]>>,
}

impl<'a> Clients<'a> {
    fn of(node: &'a Binary) -> Self {
        Self { node, open: Mutex::new(Some([const { None }; CLIENTS])) }
    }

    /// A new connection of a client, unless they have hung up.
    fn connect(&self, client: usize) -> Option<Kept> {
        let mut open = self.open.lock().expect("no client has failed");
        let place = &mut open.as_mut()?[client];
        let connection = self.node.keep();
        *place = Some(connection.0.get_ref().try_clone().expect("a descriptor"));
        Some(connection)
    }

    fn have_hung_up(&self) -> bool {
        self.open.lock().expect("no client has failed").is_none()
    }

    /// Reads until they hang up; how many answers were whole, and how many refused.
    fn read_on(&self, client: usize, endpoint: &Endpoint, answered: &[AtomicUsize; 2]) {
        let Endpoint { name, method, path, body } = endpoint;
        let mut connection = self.connect(client);
        while let Some(open) = connection.as_mut().filter(|_| !self.have_hung_up()) {
            let sent = open.0.get_mut().write_all(&http::request(method, path, &[], body));
            let answer = sent.and_then(|()| http::try_read_answer(&mut open.0));
            if client > 0 && self.have_hung_up() {
                return;
            }
            let answer = answer.unwrap_or_else(|error| panic!("{name}: {error}"));
            let is_refused = match answer.status {
                200 => answer.is_cut,
                429 | 503 => true,
                // All samples may be too many for one message, and ten thousand long values for one list.
                400 if ["samples", "status"].contains(name) => true,
                status => panic!("{name}: {status}: {}", answer.text()),
            };
            answered[usize::from(is_refused)].fetch_add(1, Ordering::Relaxed);
            if is_refused {
                std::thread::sleep(Duration::from_millis(20));
                connection = self.connect(client);
            }
        }
    }
}

/// Has the clients hang up when it goes, by a panic too.
struct HangingUp<'a>(&'a Clients<'a>);

impl Drop for HangingUp<'_> {
    fn drop(&mut self) {
        // Where a client has failed, that is told.
        let open = self.0.open.lock().map(|mut open| open.take()).unwrap_or_default();
        for stream in open.into_iter().flatten().skip(1).flatten() {
            // What the node has closed can't be shut, and needn't be.
            stream.shutdown(Shutdown::Both).ok();
        }
    }
}

/// The latencies of writes beside twenty clients.
fn beside(node: &Binary, writer: &mut Writer, endpoint: &Endpoint) -> Latencies {
    let (clients, answered) = (Clients::of(node), [const { AtomicUsize::new(0) }; 2]);
    let latencies = std::thread::scope(|scope| {
        let hanging_up = HangingUp(&clients);
        for client in 0..CLIENTS {
            let (clients, answered) = (&clients, &answered);
            scope.spawn(move || {
                if is_strict() {
                    precedence::come_last();
                }
                clients.read_on(client, endpoint, answered);
            });
        }
        let latencies = writer.write_for(read_for());
        drop(hanging_up);
        latencies
    });
    let [whole, refused] = answered.map(AtomicUsize::into_inner);
    println!("{}: {latencies}; {whole} answers, {refused} refused", endpoint.name);
    assert!(whole + refused > 0, "{}: nobody was answered", endpoint.name);
    latencies
}

fn is_strict() -> bool {
    std::env::var_os("READERS_STRICT").is_some()
}

fn read_for() -> Duration {
    if is_strict() { STRICTLY_READ_FOR } else { READ_FOR }
}

/// One after the other: each is to have the machine.
static ALONE: Mutex<()> = Mutex::new(());

fn check(limit_mib: usize, series: usize) {
    let _alone = ALONE.lock();
    // What a strict one makes of its thread is no other test's.
    std::thread::scope(|scope| scope.spawn(|| check_alone(limit_mib, series)).join()).expect("it holds");
}

fn check_alone(limit_mib: usize, series: usize) {
    let shards = if is_strict() { "1" } else { "2" };
    let limit = format!("{limit_mib}MiB");
    let options = ["--ack", "memory", "--shards", shards, "--memory-limit", &limit];
    let start = || Binary::start(env!("CARGO_BIN_EXE_silverback"), &options);
    let node = if is_strict() { precedence::start_apart(start) } else { start() };
    writes::preload(&node, series, LONG_VALUES);
    let mut writer = Writer::new(&node);
    writer.write_for(Duration::from_secs(1));
    let alone = writer.write_for(2 * read_for());
    println!("alone: {alone}");
    let before = uncounted_bytes(&node);
    let mut held = Vec::new();
    for endpoint in endpoints() {
        let mut is_held = (0..TRIES).map(|_| {
            let turns = CpuTurns::of(node.id());
            let beside = beside(&node, &mut writer, &endpoint);
            let slack = if is_strict() { Duration::ZERO } else { SLACK.mul_f64(turns.stretch()) };
            let allowed = alone.p99.mul_f64(RATIO_MAX) + slack;
            println!("at most {allowed:.1?}");
            beside.p99 > allowed
        });
        if is_held.all(|is_held| is_held) {
            held.push(endpoint.name);
        }
    }
    assert!(held.is_empty(), "{held:?}: {TRIES} times above what is allowed; alone: {alone}");
    assert!(node.peak_bytes() < limit_mib * MIB, "{} MiB resident", node.peak_bytes() / MIB);
    eventually("reads stay in flight", || reads_in_flight(&mut node.keep()) == 0.0);
    // Buffers are kept for the next requests, and blocks of many sizes share pages with what stays: some of what
    // reads took doesn't leave. Values collected one by one, by twenty at once, were most of the limit.
    let most = before + limit_mib * MIB / 4;
    println!(
        "beside what is counted: {} MiB before, {} MiB after",
        before / MIB,
        uncounted_bytes(&node) / MIB
    );
    // Nobody asks the node anything meanwhile: it gives back by itself.
    eventually("memory of reads isn't given back", || {
        std::thread::sleep(Duration::from_secs(2));
        uncounted_bytes(&node) < most
    });
}

/// Its resident memory but for what it counts: samples were added all the time.
fn uncounted_bytes(node: &Binary) -> usize {
    let resident_bytes = node.resident_bytes();
    let counted_bytes = sum_of(&mut node.keep(), "silverback_memory_accounted_bytes{");
    resident_bytes.saturating_sub(counted_bytes as usize)
}

fn reads_in_flight(connection: &mut Kept) -> f64 {
    sum_of(connection, "silverback_reads_in_flight{")
}

fn sum_of(connection: &mut Kept, metric: &str) -> f64 {
    let metrics = connection.ask("GET", "/metrics", &[], b"").text();
    let lines = metrics.lines().filter(|line| line.starts_with(metric));
    lines.map(|line| line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()).sum()
}

#[test]
fn twenty_readers_of_each_endpoint_stop_no_write_at_512_mib() {
    check(512, SERIES);
}

#[test]
fn twenty_readers_of_each_endpoint_stop_no_write_at_1_gib() {
    check(1024, SERIES);
}

#[test]
#[ignore = "minutes: a million series are written first"]
fn twenty_readers_of_a_million_series_stop_no_write() {
    check(4096, 1_000_000);
}
