//! The simulated node: its cores, and the lanes between them; and what may be wrong with it on
//! purpose, to see that it is found out.

use std::rc::Rc;
use std::sync::Arc;

use silverback::migration::{Migrations, Turn};
use silverback::routing::{Router, RoutingTable};
use silverback_model::{Epoch, ShardId};
use silverback_storage::message::{
    CloseCursors, FetchRows, OpenRows, Page, PartPool, ReadCall, RowCursor, Selection, SeriesBatch,
    SeriesWanted, ShardReadError,
};
use silverback_storage::shard::Inbox;
use silverback_storage::wal::layout::{self, Layout};

use crate::cells::core::{Replayable, SimCore, Times};
use crate::cells::lanes::{Mesh, deliver};
use crate::disk::SimDisk;
use crate::executor::{SimHost, yield_now};
use crate::oracle::{self, Held};
use crate::random::Random;

/// Of a read: few series each, so that there are many.
const BATCH_BYTES: usize = 4096;

/// What is wrong with a node.
pub(crate) trait Defect: 'static + Clone {
    const DRAINS: Drains = Drains::Heeded;
    const FLUSHES: Flushes = Flushes::Awaited;
    const OWNERS: Owners = Owners::AsClaimed;
    const STREAMS: Streams = Streams::InOrder;
    /// Those with a defect are found out without.
    const IS_DELETED_FROM: bool = false;
}

/// What a source does when it is asked to drain a cell.
pub(crate) enum Drains {
    Heeded,
    Forgotten,
}

/// Whether a target's claim is on disk when it says so.
pub(crate) enum Flushes {
    Awaited,
    Claimed,
}

/// Whose cells are after a restart.
pub(crate) enum Owners {
    AsClaimed,
    AsDealtOut,
}

/// What keeps a stream's batches in order.
pub(crate) enum Streams {
    /// It waits for those that came back, and shards for those that take long.
    InOrder,
    /// It waits for nothing.
    Short,
    /// Shards don't know which are its own.
    Unnamed,
}

/// Nothing is wrong.
#[derive(Clone)]
pub(crate) struct Sound;
impl Defect for Sound {
    const IS_DELETED_FROM: bool = true;
}

/// The source takes writes on while the last of the cell is copied.
#[derive(Clone)]
pub(crate) struct DrainForgotten;
impl Defect for DrainForgotten {
    const DRAINS: Drains = Drains::Forgotten;
}

/// The source releases a cell before the target's claim is on disk.
#[derive(Clone)]
pub(crate) struct ReleasedTooEarly;
impl Defect for ReleasedTooEarly {
    const FLUSHES: Flushes = Flushes::Claimed;
}

/// A restart deals all cells out as the first start did.
#[derive(Clone)]
pub(crate) struct OwnersForgotten;
impl Defect for OwnersForgotten {
    const OWNERS: Owners = Owners::AsDealtOut;
}

/// A stream goes on with a new table while parts of it are on their way by an old one.
#[derive(Clone)]
pub(crate) struct StreamHurried;
impl Defect for StreamHurried {
    const STREAMS: Streams = Streams::Short;
}

/// A shard takes a stream's parts in while an earlier one is set aside.
#[derive(Clone)]
pub(crate) struct StreamUnnamed;
impl Defect for StreamUnnamed {
    const STREAMS: Streams = Streams::Unnamed;
}

/// One core as its clients have it.
#[derive(Clone)]
pub(super) struct Acceptor {
    pub router: Rc<Router>,
    pub migrations: Migrations,
    pub pool: PartPool,
    pub host: SimHost,
}

pub(super) struct SimNode {
    pub cores: Vec<SimCore>,
    pub acceptors: Vec<Acceptor>,
    inboxes: Vec<Rc<Inbox>>,
    mesh: Mesh,
}

impl SimNode {
    pub(super) async fn start<D: Defect>(
        disk: &SimDisk,
        host: &SimHost,
        shards: usize,
        mut random: Random,
        pool: &PartPool,
        times: &Times,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let generation = match layout::prepare(disk, shards).await? {
            Layout::Same(generation) => generation,
            Layout::Changed { .. } => unreachable!("a seed has one number of shards"),
        };
        let mut replayed = Vec::new();
        for shard in 0..shards {
            replayed.push(Replayable::read(disk, host, generation, shard).await?);
        }
        let claims: Vec<_> = replayed.iter().map(|replayed| replayed.claims.clone()).collect();
        let table = match D::OWNERS {
            Owners::AsClaimed => RoutingTable::of_claims(&claims),
            Owners::AsDealtOut => RoutingTable::even(shards),
        };
        let (mesh, receivers) = Mesh::new(shards, random.fork());
        let mut node = Self { cores: Vec::new(), acceptors: Vec::new(), inboxes: Vec::new(), mesh };
        let (turn, counters) = (Turn::default(), Arc::default());
        for (at, replayed) in replayed.into_iter().enumerate() {
            let own = table.ownership_of(ShardId(at as u16), &claims[at]);
            let core = replayed.open(disk.clone(), host, at, shards, own).await?;
            let inbox = Rc::<Inbox>::default();
            let lanes = Box::new(node.mesh.from(at));
            let router = Rc::new(Router::new(at, table.clone(), Rc::clone(&inbox), lanes));
            let replies = Rc::clone(&router);
            let reply = move |to, reply| replies.reply(to, reply);
            core.spawn_worker::<D>(Rc::clone(&inbox), reply, host, times);
            let migrations = Migrations::new(Rc::clone(&router), turn.clone(), Arc::clone(&counters));
            node.acceptors.push(Acceptor { router, migrations, pool: pool.clone(), host: host.clone() });
            node.cores.push(core);
            node.inboxes.push(inbox);
        }
        for lane in receivers {
            let router = Rc::clone(&node.acceptors[lane.to].router);
            host.spawn(deliver::<D>(lane, router, host.clone(), random.fork()));
        }
        Ok(node)
    }

    /// Series that lie where they don't belong.
    pub(super) fn foreign_series(&self) -> usize {
        self.cores.iter().map(|core| core.shard.borrow().foreign_series()).sum()
    }

    pub(super) async fn close(&self) {
        self.inboxes.iter().for_each(|inbox| inbox.close());
        for core in &self.cores {
            // Why it accepts nothing was reported to whoever wrote.
            drop(core.log.close().await);
        }
        self.mesh.close();
    }
}

impl Acceptor {
    /// All that the node holds, in the order of the labels.
    pub(super) async fn read_all(&self) -> Held {
        loop {
            match self.read_by(self.router.read_epoch()).await {
                Ok(held) => return held,
                Err(ShardReadError::Moved) => yield_now(1).await,
                Err(error) => panic!("a read: {error}"),
            }
        }
    }

    async fn read_by(&self, epoch: Epoch) -> Result<Held, ShardReadError> {
        let (selection, wanted) = (Selection::everything(), SeriesWanted::Chunks);
        let open = OpenRows::<SeriesBatch> { selection, wanted, bytes: BATCH_BYTES };
        let shards: Vec<_> = self.router.shards().collect();
        let asked = shards.iter().map(|shard| self.ask(*shard, epoch, || open.clone()));
        let opened = futures::future::join_all(asked).await;
        let mut held = Held::new();
        let mut failed = None;
        for (shard, opened) in shards.into_iter().zip(opened) {
            match opened {
                Ok(Page { batch, next }) if failed.is_none() => {
                    held.extend(oracle::held(&batch));
                    self.fetch_rest(shard, next, epoch, &mut held).await?;
                }
                Ok(Page { next: Some(cursor), .. }) => {
                    let _closed = self.ask(shard, epoch, || CloseCursors(vec![cursor.id])).await;
                }
                Ok(Page { next: None, .. }) => {}
                Err(error) => failed = Some(error),
            }
        }
        held.sort_by(|a, b| a.labels.cmp(&b.labels));
        failed.map_or(Ok(held), Err)
    }

    async fn fetch_rest(
        &self,
        shard: ShardId,
        mut next: Option<RowCursor<SeriesBatch>>,
        epoch: Epoch,
        held: &mut Held,
    ) -> Result<(), ShardReadError> {
        while let Some(cursor) = next {
            let fetch = || FetchRows { cursor: cursor.again(), bytes: BATCH_BYTES };
            let page = self.ask(shard, epoch, fetch).await?;
            held.extend(oracle::held(&page.batch));
            next = page.next;
        }
        Ok(())
    }

    async fn ask<Q: ReadCall>(
        &self,
        shard: ShardId,
        epoch: Epoch,
        question: impl Fn() -> Q,
    ) -> Result<Q::Reply, ShardReadError> {
        loop {
            match self.router.ask_to_look(shard, epoch, question()) {
                Ok(answer) => return answer.await,
                // A full lane: of a fan-out's requests each has the same epoch all the same.
                Err(_) => yield_now(1).await,
            }
        }
    }
}
