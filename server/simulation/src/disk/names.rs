//! Directories: a name is sure to outlive a crash once its directory was synced, content or not.

use std::collections::{BTreeMap, BTreeSet};

use super::image::FileImage;
use crate::random::Random;

/// A file or directory, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Inode(usize);

/// All files and directories.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    unsynced: Vec<NameChange>,
}

#[derive(Debug)]
enum Node {
    File(FileImage),
    Dir(Dir),
}

#[derive(Debug, Default)]
struct Dir {
    live: BTreeMap<Box<str>, Inode>,
    durable: BTreeMap<Box<str>, Inode>,
}

/// Entries that change together or not at all.
#[derive(Debug)]
struct NameChange {
    entries: Vec<(Inode, Box<str>, Option<Inode>)>,
}

const ROOT: Inode = Inode(0);

impl Default for Tree {
    fn default() -> Self {
        Self { nodes: vec![Node::Dir(Dir::default())], unsynced: Vec::new() }
    }
}

impl Tree {
    pub(crate) fn find(&self, path: &str) -> Option<Inode> {
        let mut parts = path.split('/').filter(|part| !["", "."].contains(part));
        parts.try_fold(ROOT, |at, part| self.dir(at)?.live.get(part).copied())
    }

    pub(crate) fn file(&mut self, inode: Inode) -> &mut FileImage {
        match &mut self.nodes[inode.0] {
            Node::File(file) => file,
            Node::Dir(_) => panic!("a directory is used as a file"),
        }
    }

    pub(crate) fn is_dir(&self, inode: Inode) -> bool {
        self.dir(inode).is_some()
    }

    fn dir(&self, inode: Inode) -> Option<&Dir> {
        match &self.nodes[inode.0] {
            Node::Dir(dir) => Some(dir),
            Node::File(_) => None,
        }
    }

    /// The names in a directory; `None` where there is none.
    pub(crate) fn names(&self, path: &str) -> Option<Vec<Box<str>>> {
        self.dir(self.find(path)?).map(|dir| dir.live.keys().cloned().collect())
    }

    /// Makes an empty file or directory; `None` where the parent isn't there.
    pub(crate) fn create_file(&mut self, path: &str) -> Option<Inode> {
        self.create(path, Node::File(FileImage::default()))
    }

    pub(crate) fn create_dir(&mut self, path: &str) -> Option<Inode> {
        self.create(path, Node::Dir(Dir::default()))
    }

    fn create(&mut self, path: &str, node: Node) -> Option<Inode> {
        let (parent, name) = self.entry(path)?;
        let made = Inode(self.nodes.len());
        self.nodes.push(node);
        self.change(vec![(parent, name, Some(made))]);
        Some(made)
    }

    /// Gives a file or directory another name; `None` where it or the new parent isn't there.
    pub(crate) fn rename(&mut self, from: &str, to: &str) -> Option<()> {
        let moved = self.find(from)?;
        let ((from_dir, from_name), (to_dir, to_name)) = (self.entry(from)?, self.entry(to)?);
        self.change(vec![(from_dir, from_name, None), (to_dir, to_name, Some(moved))]);
        Some(())
    }

    /// Takes a name away, and those below it.
    pub(crate) fn remove(&mut self, path: &str) {
        for name in self.names(path).unwrap_or_default() {
            self.remove(&format!("{path}/{name}"));
        }
        if self.find(path).is_some()
            && let Some((dir, name)) = self.entry(path)
        {
            self.change(vec![(dir, name, None)]);
        }
    }

    fn entry(&self, path: &str) -> Option<(Inode, Box<str>)> {
        let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
        let parent = self.find(parent).filter(|parent| self.is_dir(*parent))?;
        Some((parent, name.into()))
    }

    fn change(&mut self, entries: Vec<(Inode, Box<str>, Option<Inode>)>) {
        for (dir, name, node) in &entries {
            set(&mut self.dir_mut(*dir).live, name, *node);
        }
        self.unsynced.push(NameChange { entries });
    }

    fn dir_mut(&mut self, inode: Inode) -> &mut Dir {
        match &mut self.nodes[inode.0] {
            Node::Dir(dir) => dir,
            Node::File(_) => panic!("a file is used as a directory"),
        }
    }

    /// All changes of names in this directory are sure from now on.
    pub(crate) fn sync_dir(&mut self, synced: Inode) {
        let touches = |change: &mut NameChange| change.entries.iter().any(|(dir, ..)| *dir == synced);
        let changes: Vec<_> = self.unsynced.extract_if(.., touches).collect();
        changes.into_iter().for_each(|change| self.make_durable(change));
    }

    fn make_durable(&mut self, change: NameChange) {
        for (dir, name, node) in change.entries {
            set(&mut self.dir_mut(dir).durable, &name, node);
        }
    }

    /// The power goes: unsynced changes of names are kept as far as a point, or each by itself, and
    /// every file is left as its content fares.
    pub(crate) fn crash(&mut self, random: &mut Random) {
        let changes = std::mem::take(&mut self.unsynced);
        let (kept_to, stray) = (random.below(changes.len() + 1), random.one_in(2));
        for (i, change) in changes.into_iter().enumerate() {
            if if stray { random.one_in(2) } else { i < kept_to } {
                self.make_durable(change);
            }
        }
        for node in &mut self.nodes {
            match node {
                Node::File(file) => file.crash(random),
                Node::Dir(dir) => dir.live.clone_from(&dir.durable),
            }
        }
        self.drop_unnamed();
    }

    /// Frees the content of what nothing names any more.
    fn drop_unnamed(&mut self) {
        let named: BTreeSet<Inode> = self.files().into_iter().map(|(_, inode)| inode).collect();
        for (at, node) in self.nodes.iter_mut().enumerate() {
            match node {
                Node::File(file) if !named.contains(&Inode(at)) => *file = FileImage::default(),
                Node::File(_) | Node::Dir(_) => {}
            }
        }
    }

    /// Every file with its path, in the paths' order.
    pub(crate) fn files(&self) -> Vec<(String, Inode)> {
        let (mut files, mut dirs) = (Vec::new(), vec![(String::new(), ROOT)]);
        while let Some((path, at)) = dirs.pop() {
            for (name, inode) in self.dir(at).into_iter().flat_map(|dir| &dir.live) {
                let found = (format!("{path}{name}"), *inode);
                match &self.nodes[inode.0] {
                    Node::File(_) => files.push(found),
                    Node::Dir(_) => dirs.push((format!("{}/", found.0), *inode)),
                }
            }
        }
        files.sort();
        files
    }

    /// Bytes of all files that have a name.
    pub(crate) fn used_bytes(&mut self) -> usize {
        self.files().into_iter().map(|(_, inode)| self.file(inode).len()).sum()
    }
}

fn set(entries: &mut BTreeMap<Box<str>, Inode>, name: &str, node: Option<Inode>) {
    match node {
        Some(node) => drop(entries.insert(name.into(), node)),
        None => drop(entries.remove(name)),
    }
}

/// What names are there after a crash, over many seeds, each set once.
#[cfg(test)]
fn left_by_crashes(change: impl Fn(&mut Tree)) -> BTreeSet<Vec<Box<str>>> {
    let left = |seed| {
        let mut tree = Tree::default();
        change(&mut tree);
        tree.crash(&mut Random::new(seed));
        tree.names("").unwrap()
    };
    (0..200).map(left).collect()
}

#[test]
fn a_rename_without_a_sync_leaves_one_name_or_the_other() {
    let left = left_by_crashes(|tree| {
        tree.create_file("a");
        tree.sync_dir(ROOT);
        tree.rename("a", "b");
    });
    assert_eq!(left, BTreeSet::from([vec!["a".into()], vec!["b".into()]]));
}

#[test]
fn a_synced_name_stays_and_an_unsynced_one_can_go() {
    let left = left_by_crashes(|tree| {
        tree.create_file("a");
        tree.sync_dir(ROOT);
        tree.create_file("b");
    });
    assert_eq!(left, BTreeSet::from([vec!["a".into()], vec!["a".into(), "b".into()]]));
}

#[test]
fn a_directory_s_own_name_must_be_synced_too() {
    let left = left_by_crashes(|tree| {
        let dir = tree.create_dir("d").unwrap();
        tree.create_file("d/a");
        tree.sync_dir(dir);
    });
    assert!(left.contains(&vec![]));
}
