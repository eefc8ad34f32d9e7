//! A node made up: stores samples as a node does, and otherwise does what a test has planned.

use std::collections::{BTreeMap, VecDeque};
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::channel::mpsc;
use futures::{SinkExt, Stream};
use silverback_client::histogram::Histogram;
use silverback_client::{Client, Labels};
use silverback_proto::v1::admin_server::AdminServer;
use silverback_proto::v1::ingest_server::{Ingest, IngestServer};
use silverback_proto::v1::query_server::{Query, QueryServer};
use silverback_proto::v1::{self, RefusalReason};
pub(crate) use silverback_test_support::TEST_TIMEOUT;
use silverback_test_support::Waiting;
use tokio::sync::Semaphore;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::codegen::Service;
use tonic::server::NamedService;
use tonic::transport::Server;
use tonic::transport::server::{ServerTlsConfig, TcpIncoming};
use tonic::{Code, Request, Response, Status, Streaming};

pub(crate) const WIDE_TERMS: v1::Terms = v1::Terms {
    durability: v1::Durability::Disk as i32,
    batches_in_flight_max: 8,
    message_bytes_max: 4 << 20,
    batch_samples_max: 100_000,
    refs_max: 1 << 20,
    definition_bytes_max: 64 << 20,
    idle_timeout_ms: 60_000,
    native_histograms: true,
};

/// What one stream does; the last plan is that of all further streams.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// It fails before the terms.
    pub refused: Option<Status>,
    pub terms: v1::Terms,
    /// It ends like this after so many batches, which are stored.
    pub ends: Option<(usize, Status)>,
    /// Each acknowledgement takes a permit.
    pub acknowledgements: Arc<Semaphore>,
}

impl Default for Plan {
    fn default() -> Self {
        let acknowledgements = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self { refused: None, terms: WIDE_TERMS, ends: None, acknowledgements }
    }
}

impl Plan {
    pub(crate) fn refused(code: Code) -> Self {
        Self { refused: Some(Status::new(code, "as planned")), ..Self::default() }
    }

    /// Stores so many batches, acknowledges none of them, and ends.
    pub(crate) fn silent_until(batches: usize, status: Status) -> Self {
        let acknowledgements = Arc::new(Semaphore::new(0));
        Self { ends: Some((batches, status)), acknowledgements, ..Self::default() }
    }

    pub(crate) fn with_terms(terms: v1::Terms) -> Self {
        Self { terms, ..Self::default() }
    }

    fn acknowledged_by(acknowledgements: &Arc<Semaphore>) -> Self {
        Self { acknowledgements: Arc::clone(acknowledgements), ..Self::default() }
    }

    /// Acknowledges nothing but what the semaphore is given permits for.
    pub(crate) fn held() -> (Self, Arc<Semaphore>) {
        let permits = Arc::new(Semaphore::new(0));
        (Self::acknowledged_by(&permits), permits)
    }
}

/// A batch that came.
#[derive(Debug, Clone)]
pub(crate) struct Came {
    pub stream: usize,
    pub at: Instant,
    pub definitions: usize,
    pub batch: v1::Batch,
}

/// What it stores: times and values' bits by labels.
pub(crate) type Stored = BTreeMap<Labels, BTreeMap<i64, u64>>;

#[derive(Debug, Default)]
pub(crate) struct State {
    pub plans: VecDeque<Plan>,
    pub streams: usize,
    pub came: Vec<Came>,
    pub stored: Stored,
    /// Native histograms, none of which it refuses.
    pub histograms: BTreeMap<Labels, BTreeMap<i64, Histogram>>,
    /// Series that are refused, by a value of theirs.
    pub refused_value: Option<(String, RefusalReason)>,
    pub select: Vec<v1::SelectResponse>,
    pub select_ends: Option<Status>,
    pub asked: Vec<String>,
    /// What it was asked, in order; and what it refuses to be asked.
    pub steered: Vec<String>,
    pub steering_refused: Option<Status>,
    /// What it answers to a GET of its refusals: a status and a body.
    pub refusals: Option<(u16, String)>,
    /// Checkpoints that its shard has, for each that it was asked to write.
    pub checkpoints: u64,
    /// Each request must have this `authorization`.
    pub authorization: Option<String>,
}

/// A running fake.
#[derive(Clone)]
pub(crate) struct Fake {
    pub address: SocketAddr,
    state: Arc<Mutex<State>>,
}

impl Fake {
    /// One whose streams go by these plans.
    pub(crate) fn start(plans: impl IntoIterator<Item = Plan>) -> Self {
        Self::start_with(plans, None)
    }

    pub(crate) fn start_with(plans: impl IntoIterator<Item = Plan>, tls: Option<ServerTlsConfig>) -> Self {
        let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = incoming.local_addr().unwrap();
        let state = State { plans: plans.into_iter().collect(), ..State::default() };
        let fake = Self { address, state: Arc::new(Mutex::new(state)) };
        let mut server = Server::builder();
        if let Some(tls) = tls {
            server = server.tls_config(tls).unwrap();
        }
        let ingest = IngestServer::new(fake.clone())
            .accept_compressed(CompressionEncoding::Zstd)
            .accept_compressed(CompressionEncoding::Gzip);
        let router = server
            .add_service(ingest)
            .add_service(QueryServer::new(fake.clone()))
            .add_service(AdminServer::new(fake.clone()))
            .add_service(Api(fake.clone()));
        tokio::spawn(router.serve_with_incoming(incoming));
        fake
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(format!("http://{}", self.address)).await.unwrap()
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Waits until it is so.
    pub(crate) async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) {
        let waiting = Waiting::begin();
        while !is_so(&self.state()) {
            waiting.check(|| format!("{what}: {:?}", self.state()));
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// How many samples each batch had, by the streams on which they came.
    pub(crate) fn batch_lengths(&self) -> Vec<(usize, usize)> {
        self.state().came.iter().map(|came| (came.stream, came.batch.values.len())).collect()
    }

    #[allow(clippy::result_large_err, reason = "as tonic has it")]
    pub(crate) fn check<T>(&self, request: &Request<T>) -> Result<(), Status> {
        let given = request.metadata().get("authorization").map(|value| value.to_str().unwrap());
        match &self.state().authorization {
            Some(wanted) if given != Some(wanted) => Err(Status::unauthenticated("who are you?")),
            Some(_) | None => Ok(()),
        }
    }

    /// Stores a batch as a node does; which refs are refused why, and how many samples of each.
    fn store(&self, series: &BTreeMap<u32, Labels>, batch: &v1::Batch) -> Outcome {
        let mut state = self.state();
        let mut outcome = Outcome::default();
        for (series_ref, timestamp_ms, value) in samples(batch) {
            match state.store(&series[&series_ref], timestamp_ms, value.to_bits()) {
                Ok(()) => outcome.written += 1,
                Err(reason) => *outcome.refused.entry((series_ref, reason as i32)).or_default() += 1,
            }
        }
        let mut series_ref = 0_u32;
        assert_eq!(batch.histogram_ref_deltas.len(), batch.histograms.len());
        for (delta, message) in batch.histogram_ref_deltas.iter().zip(&batch.histograms) {
            series_ref = series_ref.wrapping_add_signed(*delta);
            let mut histogram = Histogram::default();
            let times = histogram.read_message(message).unwrap();
            let stored = state.histograms.entry(series[&series_ref].clone()).or_default();
            stored.insert(times.timestamp_ms, histogram);
            outcome.written += 1;
        }
        outcome
    }
}

impl State {
    fn store(&mut self, labels: &Labels, timestamp_ms: i64, bits: u64) -> Result<(), RefusalReason> {
        if let Some((value, reason)) = &self.refused_value
            && labels.iter().any(|(_, other)| other == value)
        {
            return Err(*reason);
        }
        let samples = self.stored.entry(labels.clone()).or_default();
        match (samples.get(&timestamp_ms), samples.last_key_value()) {
            (Some(stored), _) if *stored == bits => Ok(()),
            (Some(_), _) => Err(RefusalReason::Duplicate),
            (None, Some((newest, _))) if *newest > timestamp_ms => Err(RefusalReason::OutOfOrder),
            (None, _) => {
                samples.insert(timestamp_ms, bits);
                Ok(())
            }
        }
    }

    fn next_plan(&mut self) -> Plan {
        match self.plans.len() {
            0 => Plan::default(),
            1 => self.plans[0].clone(),
            _more => self.plans.pop_front().unwrap(),
        }
    }
}

#[derive(Debug, Default)]
struct Outcome {
    written: u64,
    refused: BTreeMap<(u32, i32), u64>,
}

impl Outcome {
    fn refusals(&self, batch_number: u64) -> Vec<v1::Refusal> {
        let refusal = |(&(r#ref, reason), &samples)| v1::Refusal { batch_number, r#ref, reason, samples };
        self.refused.iter().map(refusal).collect()
    }
}

/// The rows of a batch's columns.
pub(crate) fn samples(batch: &v1::Batch) -> Vec<(u32, i64, f64)> {
    let (mut series_ref, mut timestamp_ms) = (0_u32, batch.base_timestamp_ms);
    let mut rows = Vec::new();
    assert_eq!(batch.ref_deltas.len(), batch.values.len());
    for (at, value) in batch.values.iter().enumerate() {
        series_ref = series_ref.wrapping_add_signed(batch.ref_deltas[at]);
        if !batch.timestamp_deltas_ms.is_empty() {
            timestamp_ms = timestamp_ms.wrapping_add(batch.timestamp_deltas_ms[at]);
        }
        rows.push((series_ref, timestamp_ms, *value));
    }
    rows
}

fn define(series: &mut BTreeMap<u32, Labels>, definitions: Vec<v1::SeriesDefinition>) {
    for definition in definitions {
        let labels = definition.labels.into_iter().map(|label| (label.name, label.value)).collect();
        assert!(series.insert(definition.r#ref, labels).is_none(), "a ref was defined twice");
    }
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Ingest for Fake {
    async fn write(&self, request: Request<v1::WriteRequest>) -> Result<Response<v1::WriteResponse>, Status> {
        self.check(&request)?;
        let request = request.into_inner();
        let mut series = BTreeMap::new();
        define(&mut series, request.series);
        let outcome = self.store(&series, &request.batch.unwrap());
        let refusals = outcome.refusals(0);
        Ok(Response::new(v1::WriteResponse { samples_written: outcome.written, refusals }))
    }

    type StreamStream = Responses<v1::StreamResponse>;

    async fn stream(
        &self,
        request: Request<Streaming<v1::StreamRequest>>,
    ) -> Result<Response<Self::StreamStream>, Status> {
        self.check(&request)?;
        let (plan, stream) = {
            let mut state = self.state();
            state.streams += 1;
            (state.next_plan(), state.streams)
        };
        if let Some(status) = plan.refused {
            return Err(status);
        }
        let (mut responses, answered) = mpsc::channel(1000);
        let terms = v1::StreamResponse { terms: Some(plan.terms), ..Default::default() };
        responses.try_send(Ok(terms)).unwrap();
        tokio::spawn(self.clone().take_in(request.into_inner(), plan, stream, responses));
        Ok(Response::new(Box::pin(answered)))
    }
}

impl Fake {
    async fn take_in(
        self,
        mut requests: Streaming<v1::StreamRequest>,
        plan: Plan,
        stream: usize,
        mut responses: mpsc::Sender<Result<v1::StreamResponse, Status>>,
    ) {
        let mut series = BTreeMap::new();
        // Acknowledged one after the other, whatever they wait for.
        let turns = Arc::new(tokio::sync::Mutex::new(()));
        let mut batches = 0;
        while let Ok(Some(request)) = requests.message().await {
            let definitions = request.series.len();
            define(&mut series, request.series);
            let batch = request.batch.unwrap();
            let outcome = self.store(&series, &batch);
            let response = v1::StreamResponse {
                terms: None,
                acknowledged_number: batch.number,
                samples_written: outcome.written,
                refusals: outcome.refusals(batch.number),
            };
            self.state().came.push(Came { stream, at: Instant::now(), definitions, batch });
            batches += 1;
            if let Some((_, status)) = plan.ends.as_ref().filter(|(after, _)| *after == batches) {
                drop(responses.send(Err(status.clone())).await);
                return;
            }
            let (permits, turns) = (Arc::clone(&plan.acknowledgements), Arc::clone(&turns));
            let turn = turns.lock_owned();
            let mut responses = responses.clone();
            tokio::spawn(async move {
                let _turn = turn.await;
                permits.acquire().await.unwrap().forget();
                // A client that is gone needs none.
                drop(responses.send(Ok(response)).await);
            });
            tokio::task::yield_now().await;
        }
    }
}

/// What it answers over HTTP, below `/api`.
#[derive(Clone)]
struct Api(Fake);

impl NamedService for Api {
    const NAME: &'static str = "api";
}

impl Service<http::Request<Body>> for Api {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let mut state = self.0.state();
        let given = request.headers().get("authorization").map(|value| value.to_str().unwrap().to_owned());
        state.asked.push(format!("{} {}", request.method(), request.uri().path()));
        let (status, text) = match (&state.authorization, &state.refusals) {
            (Some(wanted), _) if given.as_ref() != Some(wanted) => (401, "who are you?".to_owned()),
            (_, Some(refusals)) if request.uri().path() == "/api/v1/status/refusals" => refusals.clone(),
            (_, _) => (404, "no such page".to_owned()),
        };
        let body = Body::new(http_body_util::Full::new(bytes::Bytes::from(text)));
        ready(Ok(http::Response::builder().status(status).body(body).unwrap()))
    }
}

#[tonic::async_trait]
impl Query for Fake {
    type SelectStream = Responses<v1::SelectResponse>;

    async fn select(
        &self,
        request: Request<v1::SelectRequest>,
    ) -> Result<Response<Self::SelectStream>, Status> {
        self.check(&request)?;
        let mut state = self.state();
        state.asked.push(format!("{:?}", request.get_ref()));
        let responses = state.select.drain(..).map(Ok).collect::<Vec<_>>();
        let ends = state.select_ends.take().map(Err);
        Ok(Response::new(Box::pin(futures::stream::iter(responses.into_iter().chain(ends)))))
    }

    type SeriesStream = Responses<v1::SeriesResponse>;

    async fn series(
        &self,
        request: Request<v1::SeriesRequest>,
    ) -> Result<Response<Self::SeriesStream>, Status> {
        self.check(&request)?;
        let sets: Vec<_> = self.state().stored.keys().map(label_set).collect();
        let responses: Vec<_> =
            sets.chunks(2).map(|sets| Ok(v1::SeriesResponse { series: sets.to_vec() })).collect();
        Ok(Response::new(Box::pin(futures::stream::iter(responses))))
    }

    async fn label_names(
        &self,
        request: Request<v1::LabelNamesRequest>,
    ) -> Result<Response<v1::LabelNamesResponse>, Status> {
        self.state().asked.push(format!("{:?}", request.get_ref()));
        Ok(Response::new(v1::LabelNamesResponse { names: vec!["a".to_owned(), "b".to_owned()] }))
    }

    async fn label_values(
        &self,
        request: Request<v1::LabelValuesRequest>,
    ) -> Result<Response<v1::LabelValuesResponse>, Status> {
        self.state().asked.push(format!("{:?}", request.get_ref()));
        Ok(Response::new(v1::LabelValuesResponse { values: vec!["1".to_owned()] }))
    }
}

fn label_set(labels: &Labels) -> v1::LabelSet {
    v1::LabelSet { labels: messages(labels) }
}

/// Labels as a message has them.
pub(crate) fn messages(labels: &Labels) -> Vec<v1::Label> {
    labels.iter().map(|(name, value)| v1::Label { name: name.clone(), value: value.clone() }).collect()
}
