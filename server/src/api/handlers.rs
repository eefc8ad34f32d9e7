//! All that one core answers with, and one connection's part in it.

use std::net::IpAddr;
use std::rc::Rc;

use http::HeaderMap;

use crate::access::gate::CoreGate;
use crate::api::admission::Door;
use crate::api::cell_mover::CellMover;
use crate::api::core::CoreContext;
use crate::api::ingest::Ingest;
use crate::api::ingest::caller::Caller;
use crate::api::query::Reader;
use crate::api::query::http_api::promql::QueryCaller;
use crate::routing::Asker;

/// What a core's handlers have.
#[derive(Clone)]
pub(crate) struct Handlers {
    pub(crate) core: Rc<CoreContext>,
    pub(crate) ingest: Rc<Ingest>,
    pub(crate) reader: Rc<Reader>,
    pub(crate) mover: Rc<CellMover>,
    /// Who is let in; `None`: everybody.
    pub(crate) gate: CoreGate,
}

/// The same for the client at the other end of a connection.
pub(crate) struct RequestPeer {
    pub(crate) handlers: Handlers,
    /// Its address.
    pub(crate) address: Option<IpAddr>,
    /// The address of the node's that it came to.
    pub(crate) door: Door,
    /// Who is refused what.
    pub(crate) caller: Caller,
    /// Its turns among the core's reads.
    pub(crate) asker: Asker,
}

impl RequestPeer {
    /// A client, by its address as the socket has it, and by the node's that it came to.
    pub(crate) fn new(handlers: Handlers, address: Option<IpAddr>, door: Door) -> Self {
        let caller = Caller::new(Rc::clone(&handlers.ingest), address);
        Self { handlers, address, door, caller, asker: Asker::default() }
    }

    /// Who sends a request with these headers, as far as is known.
    pub(crate) fn client(&self, headers: &HeaderMap) -> QueryCaller {
        let user = self.handlers.gate.as_deref().and_then(|gate| gate.name_of(headers));
        QueryCaller::new(self.address, user)
    }
}
