//! A disk in memory that does all that a disk may do to a program.
//!
//! Every operation takes a drawn number of polls. What was not synced is lost, kept or torn at a
//! crash ([`image`], [`names`]); faults come when the scenario says ([`faults`]). It also holds its
//! user to the contract: whole blocks, one write or sync of a file at a time.
pub(crate) mod faults;
pub(crate) mod image;
pub(crate) mod names;

#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::io;
use std::rc::Rc;

use silverback_host::disk::{Disk, DiskError, File, Operation};
use silverback_host::waiters::Waiters;

use crate::executor::yield_now;
use crate::random::Random;
use crate::trace::Trace;
pub(crate) use faults::{Faults, Syncs};
use image::SECTOR;
use names::{Inode, Tree};

/// A data directory. Cheap to clone; a clone is the same disk.
#[derive(Clone)]
pub(crate) struct SimDisk {
    state: Rc<RefCell<State>>,
    /// Operations that wait for a disk that hangs.
    hung: Rc<Waiters>,
}

struct State {
    block_bytes: usize,
    tree: Tree,
    faults: Faults,
    syncs: Syncs,
    random: Random,
    trace: Trace,
    /// Steps of operations since the power came on.
    steps: u64,
    /// Files that somebody tried to make.
    creates: u64,
    is_crashed: bool,
}

/// An open file.
pub(crate) struct SimFile {
    disk: SimDisk,
    path: Box<str>,
    inode: Inode,
    is_busy: Rc<Cell<bool>>,
}

impl SimDisk {
    pub(crate) fn new(mut random: Random, trace: Trace) -> Self {
        let block_bytes = *random.pick(&[512, 4096]);
        let state = State {
            block_bytes,
            tree: Tree::default(),
            faults: Faults::default(),
            syncs: Syncs::default(),
            random,
            trace,
            steps: 0,
            creates: 0,
            is_crashed: false,
        };
        Self { state: Rc::new(RefCell::new(state)), hung: Rc::default() }
    }

    /// Whether both are the same disk.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.state, &other.state)
    }

    /// Another life begins: the steps are counted again, and these faults are to come.
    pub(crate) fn begin_life(&self, faults: Faults) {
        let mut state = self.state.borrow_mut();
        (state.faults, state.steps, state.is_crashed) = (faults, 0, false);
    }

    /// Changes the faults that are to come.
    pub(crate) fn set_faults(&self, change: impl FnOnce(&mut Faults)) {
        change(&mut self.state.borrow_mut().faults);
        self.hung.wake_all();
    }

    /// Makes it a disk that a log can't rely on.
    pub(crate) fn set_syncs(&self, syncs: Syncs) {
        self.state.borrow_mut().syncs = syncs;
    }

    /// Whether the power went: nothing completes any more.
    pub(crate) fn is_crashed(&self) -> bool {
        self.state.borrow().is_crashed
    }

    /// Steps of operations in this life.
    pub(crate) fn steps(&self) -> u64 {
        self.state.borrow().steps
    }

    /// Files that somebody tried to make so far.
    pub(crate) fn creates(&self) -> u64 {
        self.state.borrow().creates
    }

    /// What the power leaves when it goes.
    pub(crate) fn lose_power(&self) {
        let state = &mut *self.state.borrow_mut();
        state.tree.crash(&mut state.random);
        state.trace.event("power", [0, 0], format_args!("lost"));
    }

    /// Bytes in files.
    pub(crate) fn used_bytes(&self) -> usize {
        self.state.borrow_mut().tree.used_bytes()
    }

    /// Every file with its length.
    pub(crate) fn files(&self) -> Vec<(String, usize)> {
        let tree = &mut self.state.borrow_mut().tree;
        tree.files().into_iter().map(|(path, inode)| (path, tree.file(inode).len())).collect()
    }

    /// Takes a file away, for good.
    pub(crate) fn take_away(&self, path: &str) {
        let tree = &mut self.state.borrow_mut().tree;
        let dir = path.rsplit_once('/').map_or("", |(dir, _)| dir);
        tree.remove(path);
        let dir = tree.find(dir).expect("the file was there");
        tree.sync_dir(dir);
    }

    /// Turns a bit over at a place in a file.
    pub(crate) fn flip_bit(&self, path: &str, at: usize, bit: u32) {
        let tree = &mut self.state.borrow_mut().tree;
        let inode = tree.find(path).expect("the file is there");
        tree.file(inode).flip_bit(at, bit);
    }

    /// One step of an operation. The crash comes at a step, and nothing after it ever completes.
    async fn step(&self) {
        let is_over = {
            let mut state = self.state.borrow_mut();
            state.steps += 1;
            state.is_crashed |= state.faults.crash_at_step == Some(state.steps);
            state.is_crashed
        };
        if is_over {
            pending::<()>().await;
        }
        self.hung.until(|| (!self.state.borrow().faults.is_hung).then_some(())).await;
    }

    async fn wait(&self) {
        let polls = self.state.borrow_mut().random.below(4);
        yield_now(polls).await;
    }

    /// An operation that takes effect at some time between its begin and its end.
    async fn operate<T>(
        &self,
        operation: Operation,
        path: &str,
        act: impl FnOnce(&mut State) -> Result<T, io::Error>,
    ) -> Result<T, DiskError> {
        self.step().await;
        self.wait().await;
        let result = self.act(operation, path, act);
        self.wait().await;
        self.step().await;
        result
    }

    fn act<T>(
        &self,
        operation: Operation,
        path: &str,
        act: impl FnOnce(&mut State) -> Result<T, io::Error>,
    ) -> Result<T, DiskError> {
        let mut state = self.state.borrow_mut();
        let result = act(&mut state).map_err(|error| DiskError::new(operation, path, &error));
        let failed = result.as_ref().err();
        let outcome = failed.map_or_else(|| "done".to_owned(), ToString::to_string);
        let numbers = [state.steps, u64::from(failed.is_some())];
        state.trace.event(
            "disk",
            numbers,
            format_args!("{} {} {path}: {outcome}", state.steps, operation.as_str()),
        );
        result
    }

    fn opened(&self, path: &str, inode: Inode) -> SimFile {
        SimFile { disk: self.clone(), path: path.into(), inode, is_busy: Rc::default() }
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl Disk for SimDisk {
    type File = SimFile;

    fn block_bytes(&self) -> usize {
        self.state.borrow().block_bytes
    }

    async fn list(&self, dir: &str) -> Result<Vec<Box<str>>, DiskError> {
        self.operate(Operation::Open, dir, |state| {
            let mut names = state.tree.names(dir).ok_or_else(missing)?;
            // In no order that means something.
            for at in (1..names.len()).rev() {
                names.swap(at, state.random.below(at + 1));
            }
            Ok(names)
        })
        .await
    }

    async fn create_dir(&self, dir: &str) -> Result<(), DiskError> {
        self.operate(Operation::Create, dir, |state| {
            state.fail_if_full(1)?;
            match state.tree.find(dir) {
                Some(found) if state.tree.is_dir(found) => Ok(()),
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => state.tree.create_dir(dir).map(drop).ok_or_else(missing),
            }
        })
        .await
    }

    async fn create(&self, path: &str) -> Result<SimFile, DiskError> {
        let act = |state: &mut State| {
            state.creates += 1;
            state.fail_if_full(1)?;
            state.tree.create_file(path).ok_or_else(missing)
        };
        Ok(self.opened(path, self.operate(Operation::Create, path, act).await?))
    }

    async fn open(&self, path: &str) -> Result<SimFile, DiskError> {
        let act = |state: &mut State| state.tree.find(path).ok_or_else(missing);
        Ok(self.opened(path, self.operate(Operation::Open, path, act).await?))
    }

    async fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        self.operate(Operation::Rename, from, |state| state.tree.rename(from, to).ok_or_else(missing)).await
    }

    async fn remove(&self, path: &str) -> Result<(), DiskError> {
        self.remove_dir(path).await
    }

    async fn remove_dir(&self, dir: &str) -> Result<(), DiskError> {
        self.operate(Operation::Remove, dir, |state| {
            state.tree.remove(dir);
            Ok(())
        })
        .await
    }

    async fn sync_dir(&self, dir: &str) -> Result<(), DiskError> {
        self.operate(Operation::Sync, dir, |state| {
            let found = state.tree.find(dir).ok_or_else(missing)?;
            if state.faults.sync_fails() {
                return Err(faults::broken());
            }
            match state.syncs {
                Syncs::Honest | Syncs::LieOfData => state.tree.sync_dir(found),
                Syncs::LieOfNames => {}
            }
            Ok(())
        })
        .await
    }
}

impl State {
    fn fail_if_full(&mut self, growth: usize) -> Result<(), io::Error> {
        match self.faults.capacity_bytes {
            Some(capacity) if self.tree.used_bytes() + growth > capacity => {
                Err(io::ErrorKind::StorageFull.into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn write(&mut self, inode: Inode, offset: usize, bytes: &[u8]) -> Result<(), io::Error> {
        let growth = (offset + bytes.len()).saturating_sub(self.tree.file(inode).len());
        let result = match growth {
            0 => Ok(()),
            growth => self.fail_if_full(growth),
        };
        let result = if self.faults.write_fails() { Err(faults::broken()) } else { result };
        let sectors = match &result {
            Ok(()) => bytes.len() / SECTOR,
            // What comes before the failure may be written, inside what the file holds already.
            Err(_) => self.random.below((bytes.len() - growth.min(bytes.len())) / SECTOR + 1),
        };
        self.tree.file(inode).write(offset, &bytes[..sectors * SECTOR]);
        result
    }

    fn sync(&mut self, inode: Inode) -> Result<(), io::Error> {
        let file = self.tree.file(inode);
        if self.faults.sync_fails() {
            file.fail_sync(&mut self.random);
            return Err(faults::broken());
        }
        match self.syncs {
            Syncs::Honest | Syncs::LieOfNames => file.sync(),
            Syncs::LieOfData => {}
        }
        Ok(())
    }
}

/// Held while a file is written or synced.
struct Busy(Rc<Cell<bool>>);

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

impl SimFile {
    fn busy(&self) -> Busy {
        assert!(!self.is_busy.replace(true), "{}: two writes or syncs at a time", self.path);
        Busy(Rc::clone(&self.is_busy))
    }
}

impl File for SimFile {
    async fn size_bytes(&self) -> Result<u64, DiskError> {
        let act = |state: &mut State| Ok(state.tree.file(self.inode).len() as u64);
        self.disk.operate(Operation::Open, &self.path, act).await
    }

    async fn write_at(&self, offset: u64, parts: &[&[u8]]) -> Result<(), DiskError> {
        let _busy = self.busy();
        let block = self.disk.block_bytes();
        assert!(offset.is_multiple_of(block as u64), "{}: a write within a block", self.path);
        let mut bytes = parts.concat();
        bytes.resize(bytes.len().next_multiple_of(block), 0);
        self.disk.step().await;
        // At once, so that a crash meets writes that are half done.
        let act = |state: &mut State| state.write(self.inode, offset as usize, &bytes);
        let result = self.disk.act(Operation::Write, &self.path, act);
        self.disk.wait().await;
        self.disk.step().await;
        result
    }

    async fn read_at(&self, offset: u64, len: usize, buffer: &mut Vec<u8>) -> Result<(), DiskError> {
        buffer.clear();
        let act = |state: &mut State| {
            buffer.extend_from_slice(state.tree.file(self.inode).read(offset as usize, len));
            Ok(())
        };
        self.disk.operate(Operation::Read, &self.path, act).await
    }

    async fn sync_data(&self) -> Result<(), DiskError> {
        let _busy = self.busy();
        self.disk.operate(Operation::Sync, &self.path, |state| state.sync(self.inode)).await
    }

    async fn close(self) -> Result<(), DiskError> {
        Ok(())
    }
}
