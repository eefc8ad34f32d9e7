//! What every disk must do, whatever is beneath it: one suite over [`Disk`], for each of them.
//!
//! It is given an empty data directory, and leaves it empty.

use std::io::ErrorKind;

use silverback_host::disk::{Disk, DiskError, File, Operation};

/// Runs all of it.
pub(crate) async fn check<D: Disk>(disk: &D) {
    the_last_block_is_padded_with_zeros(disk).await;
    a_file_grows_at_its_end_and_past_it(disk).await;
    an_overwrite_changes_its_blocks_alone(disk).await;
    a_read_ends_where_the_file_ends(disk).await;
    a_read_replaces_what_the_buffer_held_and_keeps_its_memory(disk).await;
    large_and_many_parts_are_written_whole(disk).await;
    what_was_synced_and_closed_is_there_again(disk).await;
    what_was_written_durably_is_there_again(disk).await;
    a_file_that_has_settled_is_the_same(disk).await;
    creating_a_file_empties_one_that_is_there(disk).await;
    a_rename_replaces_what_has_the_name(disk).await;
    an_open_file_keeps_its_bytes_when_its_name_changes(disk).await;
    removing_what_is_gone_is_no_error(disk).await;
    directories_are_made_listed_and_removed_with_all_in_them(disk).await;
    errors_tell_what_was_tried_on_what(disk).await;
    assert_eq!(names(disk, "").await, [""; 0], "something was left behind");
}

async fn file_of<D: Disk>(disk: &D, path: &str, bytes: &[u8]) -> D::File {
    let file = disk.create(path).await.unwrap();
    file.write_at(0, &[bytes]).await.unwrap();
    file
}

async fn read(file: &impl File, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = Vec::new();
    file.read_at(offset, len, &mut buffer).await.unwrap();
    buffer
}

async fn names(disk: &impl Disk, dir: &str) -> Vec<String> {
    let mut names: Vec<_> = disk.list(dir).await.unwrap().into_iter().map(String::from).collect();
    names.sort();
    names
}

async fn done<D: Disk>(disk: &D, path: &str, file: D::File) {
    file.close().await.unwrap();
    disk.remove(path).await.unwrap();
}

/// Bytes that differ from each other and from those of other seeds.
fn bytes(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i / 7 + i) as u8 ^ seed).collect()
}

async fn the_last_block_is_padded_with_zeros(disk: &impl Disk) {
    let block = disk.block_bytes();
    assert!(block >= 512 && block.is_power_of_two(), "a block of {block} bytes");
    let file = file_of(disk, "padded", &vec![0xff; 3 * block]).await;
    file.write_at(block as u64, &[b"one", b"", b"two"]).await.unwrap();
    let mut expect = vec![0xff; 3 * block];
    expect[block..2 * block].fill(0);
    expect[block..block + 6].copy_from_slice(b"onetwo");
    assert!(read(&file, 0, 3 * block).await == expect);
    done(disk, "padded", file).await;
}

async fn a_file_grows_at_its_end_and_past_it(disk: &impl Disk) {
    let block = disk.block_bytes();
    let file = disk.create("grown").await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 0);
    file.write_at(0, &[]).await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 0);
    file.write_at(0, &[b"first"]).await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), block as u64);
    file.write_at(block as u64, &[&bytes(block + 1, 0)]).await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 3 * block as u64);
    file.write_at(5 * block as u64, &[b"far"]).await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 6 * block as u64);
    assert!(read(&file, 3 * block as u64, 2 * block).await == vec![0; 2 * block], "a hole reads as zeros");
    done(disk, "grown", file).await;
}

async fn an_overwrite_changes_its_blocks_alone(disk: &impl Disk) {
    let block = disk.block_bytes();
    let mut expect = bytes(8 * block, 1);
    let file = file_of(disk, "overwritten", &expect).await;
    let middle = bytes(2 * block, 2);
    file.write_at(3 * block as u64, &[&middle[..5], &middle[5..]]).await.unwrap();
    expect[3 * block..5 * block].copy_from_slice(&middle);
    assert!(read(&file, 0, 8 * block).await == expect);
    assert_eq!(file.size_bytes().await.unwrap(), 8 * block as u64);
    done(disk, "overwritten", file).await;
}

async fn a_read_ends_where_the_file_ends(disk: &impl Disk) {
    let block = disk.block_bytes();
    let expect = bytes(2 * block, 3);
    let file = file_of(disk, "read", &expect).await;
    assert!(read(&file, 0, 10 * block).await == expect);
    assert!(read(&file, block as u64 + 3, 7).await == expect[block + 3..block + 10]);
    assert!(read(&file, block as u64 - 3, 7).await == expect[block - 3..block + 4]);
    assert!(read(&file, 2 * block as u64 - 3, 7).await == expect[2 * block - 3..]);
    assert!(read(&file, 2 * block as u64, 7).await.is_empty());
    assert!(read(&file, 9 * block as u64 + 1, 7).await.is_empty());
    assert!(read(&file, 0, 0).await.is_empty());
    done(disk, "read", file).await;
}

async fn a_read_replaces_what_the_buffer_held_and_keeps_its_memory(disk: &impl Disk) {
    let block = disk.block_bytes();
    let expect = bytes(block, 4);
    let file = file_of(disk, "reused", &expect).await;
    let mut buffer = Vec::with_capacity(4 * block);
    buffer.extend_from_slice(b"what was there before");
    let memory = buffer.as_ptr();
    file.read_at(0, 2 * block, &mut buffer).await.unwrap();
    assert!(buffer == expect);
    assert_eq!(buffer.as_ptr(), memory);
    done(disk, "reused", file).await;
}

async fn large_and_many_parts_are_written_whole(disk: &impl Disk) {
    let block = disk.block_bytes() as u64;
    // Over many pieces, and not a multiple of any.
    let large = bytes((10 << 20) + 777, 5);
    let file = disk.create("large").await.unwrap();
    file.write_at(block, &[&large]).await.unwrap();
    assert!(read(&file, block, large.len()).await == large);
    assert!(read(&file, block + 1_000_001, 3_000_000).await == large[1_000_001..4_000_001]);
    let parts: Vec<_> = large.chunks(997).collect();
    file.write_at(3 * block, &parts).await.unwrap();
    assert!(read(&file, 3 * block, large.len()).await == large);
    done(disk, "large", file).await;
}

async fn what_was_synced_and_closed_is_there_again(disk: &impl Disk) {
    let expect = bytes(3 * disk.block_bytes(), 6);
    let file = file_of(disk, "kept", &expect).await;
    file.sync_data().await.unwrap();
    disk.sync_dir("").await.unwrap();
    file.close().await.unwrap();
    let file = disk.open("kept").await.unwrap();
    assert!(read(&file, 0, expect.len()).await == expect);
    file.write_at(0, &[b"again"]).await.unwrap();
    assert_eq!(read(&file, 0, 5).await, b"again");
    done(disk, "kept", file).await;
}

async fn what_was_written_durably_is_there_again(disk: &impl Disk) {
    let block = disk.block_bytes() as u64;
    file_of(disk, "durable", &vec![0xff; 3 * block as usize]).await.close().await.unwrap();
    let file = disk.open_durable("durable").await.unwrap();
    file.write_durable(block, &[b"one", b"two"]).await.unwrap();
    file.write_at(2 * block, &[b"three"]).await.unwrap();
    file.sync_data().await.unwrap();
    assert_eq!(read(&file, block, 7).await, b"onetwo\0");
    file.close().await.unwrap();
    let file = disk.open("durable").await.unwrap();
    assert_eq!(read(&file, block - 1, 7).await, b"\xffonetwo");
    assert_eq!(read(&file, 2 * block, 6).await, b"three\0");
    assert_eq!(file.size_bytes().await.unwrap(), 3 * block);
    done(disk, "durable", file).await;
    let missing = disk.open_durable("durable").await.map(drop).unwrap_err();
    assert_eq!((missing.kind, missing.operation), (ErrorKind::NotFound, Operation::Open));
}

async fn a_file_that_has_settled_is_the_same(disk: &impl Disk) {
    let file = disk.create("settled").await.unwrap();
    file.settle().await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 0);
    let expect = bytes(3 * disk.block_bytes(), 8);
    file.write_at(0, &[&expect]).await.unwrap();
    file.settle().await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), expect.len() as u64);
    assert!(read(&file, 0, 2 * expect.len()).await == expect);
    done(disk, "settled", file).await;
}

async fn creating_a_file_empties_one_that_is_there(disk: &impl Disk) {
    file_of(disk, "anew", b"old").await.close().await.unwrap();
    let file = disk.create("anew").await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 0);
    assert!(read(&file, 0, 3).await.is_empty());
    done(disk, "anew", file).await;
}

async fn a_rename_replaces_what_has_the_name(disk: &impl Disk) {
    file_of(disk, "whole.tmp", b"new").await.close().await.unwrap();
    file_of(disk, "whole", b"old").await.close().await.unwrap();
    disk.rename("whole.tmp", "whole").await.unwrap();
    assert_eq!(names(disk, "").await, ["whole"]);
    let file = disk.open("whole").await.unwrap();
    assert_eq!(read(&file, 0, 3).await, b"new");
    done(disk, "whole", file).await;
}

async fn an_open_file_keeps_its_bytes_when_its_name_changes(disk: &impl Disk) {
    let block = disk.block_bytes() as u64;
    let file = file_of(disk, "before", b"mine").await;
    disk.rename("before", "after").await.unwrap();
    let other = file_of(disk, "before", &bytes(2 * block as usize, 7)).await;
    assert_eq!(file.size_bytes().await.unwrap(), block);
    file.write_at(block, &[b"more"]).await.unwrap();
    file.sync_data().await.unwrap();
    disk.remove("after").await.unwrap();
    assert_eq!(file.size_bytes().await.unwrap(), 2 * block);
    assert_eq!(read(&file, block, 4).await, b"more");
    file.close().await.unwrap();
    done(disk, "before", other).await;
}

async fn removing_what_is_gone_is_no_error(disk: &impl Disk) {
    disk.remove("never-there").await.unwrap();
    disk.remove_dir("never-there").await.unwrap();
    disk.remove("nor/this").await.unwrap();
}

async fn directories_are_made_listed_and_removed_with_all_in_them(disk: &impl Disk) {
    disk.create_dir("dir").await.unwrap();
    disk.create_dir("dir").await.unwrap();
    disk.create_dir("dir/inner").await.unwrap();
    disk.sync_dir("dir").await.unwrap();
    for path in ["dir/b", "dir/a", "dir/inner/c"] {
        file_of(disk, path, b"x").await.close().await.unwrap();
    }
    assert_eq!(names(disk, "dir").await, ["a", "b", "inner"]);
    assert_eq!(names(disk, "dir/inner").await, ["c"]);
    disk.rename("dir/inner", "dir/renamed").await.unwrap();
    assert_eq!(names(disk, "dir/renamed").await, ["c"]);
    disk.remove_dir("dir").await.unwrap();
    assert_eq!(names(disk, "").await, [""; 0]);
}

fn check_error<T>(result: Result<T, DiskError>, operation: Operation, path: &str, kind: ErrorKind) {
    let Err(error) = result else { panic!("{operation:?} {path} went well") };
    assert_eq!((error.operation, &*error.path, error.kind), (operation, path, kind));
    assert!(error.to_string().starts_with(&format!("{} {path}: ", operation.as_str())), "{error}");
    assert!(!error.reason.is_empty() && !error.is_full(), "{error}");
}

async fn errors_tell_what_was_tried_on_what(disk: &impl Disk) {
    let missing = ErrorKind::NotFound;
    check_error(disk.open("missing").await, Operation::Open, "missing", missing);
    check_error(disk.list("missing").await, Operation::Open, "missing", missing);
    check_error(disk.create("missing/file").await, Operation::Create, "missing/file", missing);
    check_error(disk.create_dir("missing/dir").await, Operation::Create, "missing/dir", missing);
    check_error(disk.rename("missing", "other").await, Operation::Rename, "missing", missing);
    check_error(disk.sync_dir("missing").await, Operation::Sync, "missing", missing);
    file_of(disk, "file", b"x").await.close().await.unwrap();
    check_error(disk.create_dir("file").await, Operation::Create, "file", ErrorKind::AlreadyExists);
    disk.remove("file").await.unwrap();
}
