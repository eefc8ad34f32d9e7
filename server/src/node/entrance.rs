//! Where requests come in on a core: its listeners, each with what it is for, the bounds of their connections, and who
//! is let in, as the files say and as they come to say.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use futures::StreamExt;
use futures::future::try_join_all;

use crate::access::gate::{CoreGate, Gate};
use crate::api::admission::Door;
use crate::api::endpoints::Endpoints;
use crate::api::handlers::Handlers;
use crate::config::Config;
use crate::node::assemble::Shared;
use silverback_model::limits::{
    FRAME_BYTES_MAX, HEAD_FIELDS_MAX, HEADER_BYTES_MAX, LINE_GROWTH_BYTES_MAX, MemoryPlan, OWN_HEADS_BYTES,
    STREAM_HEAD_BYTES_MAX,
};
use silverback_runtime as runtime;
use silverback_runtime::{Encryption, HttpLimits, HttpServer, Listener};

/// Serves every address until the notice to end.
pub(crate) async fn serve(shared: &Shared, handlers: Handlers, encryption: &Encryption) -> io::Result<()> {
    let config = &shared.config;
    let limits = http_limits(config, &shared.facts.memory);
    let connections_max = config.max_connections.div_ceil(shared.cores());
    let listeners = shared.listeners.iter().map(|(door, bound)| {
        let connections_max = match door {
            Door::Main { .. } | Door::Admin => connections_max,
            Door::Probes => connections_max.min(PROBE_CONNECTIONS_MAX),
        };
        Ok((*door, bound.listen(connections_max)?))
    });
    let listeners: Vec<(Door, Listener)> = listeners.collect::<io::Result<_>>()?;
    let server = HttpServer::new(&limits, handlers.core.shutdown.clone());
    let plain = Encryption::default();
    let serving = listeners.iter().map(|(door, listener)| {
        let (door, handlers) = (*door, handlers.clone());
        let encryption = if door == Door::Probes { &plain } else { encryption };
        let service = move |peer: Option<SocketAddr>| {
            Endpoints::new(handlers.clone(), peer.map(|peer| peer.ip()), door)
        };
        server.serve(listener, encryption, service)
    });
    try_join_all(serving).await?;
    // The sockets close here: nobody would take what is queued on them, and a client that is refused
    // tries another node.
    Ok(())
}

/// Probes that a core answers at a time.
const PROBE_CONNECTIONS_MAX: usize = 32;

/// Who is let in on a core, and how its connections are encrypted: as the files say, and as they come to say.
pub(crate) fn start_access(shared: &Shared) -> (CoreGate, Rc<Encryption>) {
    let Some((access, passwords)) = &shared.access else { return (None, Rc::default()) };
    let gate = Rc::new(Gate::new(Arc::clone(&access.doors), Arc::clone(passwords)));
    let encryption = Rc::new(Encryption::new(access.doors.tls.clone()));
    let mut changes = access.subscribe();
    let (changing, encrypting) = (Rc::clone(&gate), Rc::clone(&encryption));
    runtime::spawn_essential(async move {
        while let Some(doors) = changes.next().await {
            encrypting.replace(doors.tls.clone());
            changing.replace(doors);
        }
    });
    (Some(gate), encryption)
}

/// The bounds of connections, whose buffers have their place in the memory plan.
fn http_limits(config: &Config, plan: &MemoryPlan) -> HttpLimits {
    let default = HttpLimits::default();
    let window_bytes = (plan.reading_bytes - FRAME_BYTES_MAX) as u32;
    HttpLimits {
        header_timeout: config.header_timeout,
        idle_timeout: config.idle_timeout,
        header_bytes_max: HEADER_BYTES_MAX,
        read_buffer_bytes_max: plan.head_bytes,
        line_growth_bytes_max: LINE_GROWTH_BYTES_MAX,
        chunk_bytes_max: config.max_body_bytes as u64,
        head_fields_max: HEAD_FIELDS_MAX,
        stream_head_bytes_max: STREAM_HEAD_BYTES_MAX as u32,
        own_heads_bytes: OWN_HEADS_BYTES,
        heads_bytes_max: plan.stream_head_bytes,
        // A frame that is on its way, and what is left of a window.
        frame_bytes_max: FRAME_BYTES_MAX.min(plan.head_bytes / 4 * 3) as u32,
        stream_window_bytes: default.stream_window_bytes.min(window_bytes),
        connection_window_bytes: window_bytes,
        reading_max: plan.reading_max,
        handshakes_max: plan.handshakes_max,
        ..default
    }
}
