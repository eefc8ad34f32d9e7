//! The groups of a server's symbols: the node's and the contender's alike, so that both can be compared row by row. It
//! knows names as they are in release builds of both.
//!
//! A function that was inlined counts for the one it was inlined into.

use super::groups::Group;
use super::groups::Pattern::{Begins, Has, Is};

/// All of them; the first that has a symbol gets it.
pub const SERVER: &[Group] = &[
    KERNEL_MEMORY,
    KERNEL_SCHEDULING,
    KERNEL_RING,
    KERNEL_DISK,
    KERNEL_SOCKETS,
    KERNEL_ENTRY,
    SNAPPY,
    DECODING,
    LOG,
    APPEND,
    MEMORY,
    TRANSPORT,
    RUNTIME,
];

/// See its name. The caches' table has it, too.
pub(super) const KERNEL_MEMORY: Group = Group {
    name: "kernel: page faults and zeroing",
    is_kernel: true,
    patterns: &[
        Begins("clear_page"),
        Begins("clear_huge"),
        Begins("folio_zero"),
        Has("page_fault"),
        Has("_mm_fault"),
        Has("anon_folio"),
        Has("anonymous_page"),
        Has("huge_pmd"),
        Has("frozen_page"),
        Has("page_from_freelist"),
        Has("pfnblock"),
        Has("zone_watermark"),
        Has("zone_page_state"),
        Has("memcg"),
        Has("mem_cgroup"),
        Begins("page_counter"),
        Has("lruvec"),
        Begins("lru_"),
        Begins("folio_add_lru"),
        Begins("rmqueue"),
        Has("free_unref"),
        Begins("deferred_pages"),
        Begins("next_uptodate_folio"),
        Begins("filemap_map_pages"),
        Has("unmap_page_range"),
        Has("zap_"),
        Has("pte_"),
        Has("vma_"),
        Has("mmap"),
        Has("munmap"),
        Has("madvise"),
        Has("flush_tlb"),
        Begins("tlb_"),
    ],
};

/// See its name. The caches' table has it, too.
pub(super) const KERNEL_SCHEDULING: Group = Group {
    name: "kernel: scheduling and wake-ups",
    is_kernel: true,
    patterns: &[
        Begins("finish_task_switch"),
        // Ends what runs with interrupts off, most often a wake-up: where such a stretch can't be sampled, all of it is
        // counted here.
        Is("_raw_spin_unlock_irqrestore"),
        Is("_raw_spin_unlock_irq"),
        Is("schedule"),
        Is("__schedule"),
        Begins("schedule_"),
        Begins("sched_"),
        Begins("pick_"),
        Begins("enqueue_task"),
        Begins("dequeue_"),
        Begins("update_curr"),
        Begins("update_load"),
        Begins("switch_mm"),
        Is("__switch_to"),
        Is("__switch_to_asm"),
        Begins("prepare_task_switch"),
        Begins("psi_"),
        Begins("select_task_rq"),
        Begins("try_to_wake_up"),
        Begins("ttwu_"),
        Begins("kick_process"),
        Begins("wake_q"),
        Has("wake_up"),
        Has("futex"),
        Begins("plist_"),
        Has("eventfd"),
        Has("nanosleep"),
        Has("nsleep"),
        Has("hrtimer"),
        Has("mod_timer"),
        Begins("add_timer"),
        Has("smp_call"),
        Has("membarrier"),
        Has("_rseq"),
        Has("mm_cid"),
        Begins("native_write_msr"),
        Begins("rcu_"),
        Begins("note_gp"),
    ],
};

/// What an executor asks of it, for the disk and for connections alike.
const KERNEL_RING: Group = Group {
    name: "kernel: io_uring",
    is_kernel: true,
    patterns: &[Begins("io_"), Begins("__io_"), Has("io_uring"), Has("tctx"), Begins("task_work")],
};

const KERNEL_DISK: Group = Group {
    name: "kernel: disk",
    is_kernel: true,
    patterns: &[
        Begins("iowrite"),
        Begins("vp_"),
        Has("virtio"),
        Has("virtblk"),
        Has("virtqueue"),
        Begins("vring"),
        Has("blk"),
        Begins("bdev"),
        Begins("bio_"),
        Has("submit_bio"),
        Begins("bvec"),
        Begins("iomap"),
        Has("iomap_dio"),
        Begins("dd_"),
        Begins("__dd_"),
        Begins("elv_"),
        Has("rq_qos"),
        Begins("wbt_"),
        Begins("sbitmap"),
        Begins("sg_"),
        Has("ext4"),
        Has("jbd2"),
        Begins("mpage_"),
        Has("writepages"),
        Has("write_begin"),
        Has("fsync"),
        Has("fdatasync"),
        Has("fdatawrite"),
        Has("writeback"),
        Has("folio"),
        Has("filemap"),
        Has("xas_"),
        Has("xa_load"),
        Begins("errseq"),
        Has("dirty"),
        Has("buffer"),
        Has("get_block"),
        Begins("block_"),
        Has("generic_write"),
        Has("file_update_time"),
        Has("file_write"),
        Has("file_remove_privs"),
        Begins("file_check"),
        Has("inode"),
        Begins("update_io_ticks"),
        Begins("wait_for_completion_io"),
    ],
};

/// The connections' own, after what looks alike on the disk's way.
const KERNEL_SOCKETS: Group = Group {
    name: "kernel: sockets",
    is_kernel: true,
    patterns: &[
        Has("tcp"),
        Has("inet"),
        Has("ipv4"),
        Begins("ip_"),
        Begins("__ip_"),
        Has("sock"),
        Begins("sk_"),
        Begins("__sk_"),
        Has("skb"),
        Begins("bbr_"),
        Begins("minmax_"),
        Has("netif"),
        Has("netdev"),
        Begins("net_"),
        Begins("napi"),
        Begins("__napi"),
        Begins("dev_"),
        Begins("__dev_"),
        Begins("loopback"),
        Begins("eth_"),
        Begins("nf_"),
        Begins("dst_"),
        Has("xfrm"),
        Begins("validate_xmit"),
        Has("backlog"),
        Has("softirq"),
        Has("lookup_nulls"),
        Begins("raw_local_deliver"),
        Begins("__local_bh"),
        Begins("ep_"),
        Has("_ep_"),
        Has("epoll"),
        Has("sendto"),
        Has("sendmsg"),
        Has("recvfrom"),
        Has("recvmsg"),
        Is("_copy_to_iter"),
        Is("_copy_from_iter"),
        Begins("siphash"),
        Has("csum"),
    ],
};

const KERNEL_ENTRY: Group = Group {
    name: "kernel: entry and exit, files, small allocations",
    is_kernel: true,
    patterns: &[
        Begins("do_syscall"),
        Begins("entry_"),
        Has("syscall"),
        Begins("x64_sys_call"),
        Has("exit_to_user"),
        Begins("irqentry"),
        Begins("sysvec_"),
        Begins("asm_"),
        Has("return_thunk"),
        // To a file or to a connection: one cannot tell.
        Begins("vfs_"),
        Has("readv_writev"),
        Begins("fget"),
        Begins("fput"),
        Begins("fdget"),
        Begins("__fget"),
        Has("get_user"),
        Has("put_user"),
        Has("copy_from_user"),
        Has("copy_to_user"),
        Has("check_object_size"),
        Has("virt_addr_valid"),
        Has("vmalloc_addr"),
        Begins("import_"),
        Begins("__import_iovec"),
        Begins("security_"),
        Begins("apparmor"),
        Has("kmalloc"),
        Has("kmem_cache"),
        Begins("kfree"),
        Has("slab"),
        Begins("mutex_"),
        Begins("_raw_spin_"),
        Has("queued_spin"),
        Begins("down_"),
        Begins("up_"),
        Begins("__rcu_"),
        Begins("ktime_"),
        Begins("read_tsc"),
        Begins("__list_"),
    ],
};

const SNAPPY: Group = Group { name: "snappy", is_kernel: false, patterns: &[Begins("snap::")] };

const DECODING: Group = Group {
    name: "decoding, label checks and hashes",
    is_kernel: false,
    patterns: &[
        Begins("silverback::api::ingest::"),
        Begins("silverback_model::labels"),
        Begins("silverback_model::series_id"),
        Begins("silverback_storage::message"),
        Begins("silverback_proto"),
        Begins("xxhash_rust"),
        Begins("prost"),
        Has("utf8"),
    ],
};

const LOG: Group = Group {
    name: "log: records, groups, checksums",
    is_kernel: false,
    patterns: &[
        Begins("silverback_storage::wal"),
        Begins("silverback_benches::contender::log"),
        Begins("silverback_runtime::disk"),
        Has("DirectFile"),
        Begins("crc32c"),
        Begins("fdatasync"),
        Has("writev"),
        Has("libc_write"),
        Begins("pwrite"),
    ],
};

const APPEND: Group = Group {
    name: "append: series, index, chunks",
    is_kernel: false,
    patterns: &[
        // The node's turn of a shard among them, with its appends inlined, and in these what codes them for the log.
        Begins("silverback_storage::"),
        Begins("silverback_model::"),
        Has("silverback_storage::cell::series::SeriesHistory"),
        Begins("silverback_benches::contender::write"),
        Begins("roaring"),
        Begins("foldhash"),
        Begins("hashbrown"),
    ],
};

/// See its name.
const MEMORY: Group = Group {
    name: "memcpy, memcmp, memset and the allocator",
    is_kernel: false,
    patterns: &[
        Begins("mi_"),
        Begins("_mi_"),
        Begins("__mem"),
        Begins("mem"),
        Begins("malloc"),
        Begins("realloc"),
        Begins("alloc::"),
        Begins("__rust_"),
        Begins("__rustc"),
        Begins("bytes::"),
        Has("fill_with"),
    ],
};

const TRANSPORT: Group = Group {
    name: "HTTP and gRPC",
    is_kernel: false,
    patterns: &[
        Begins("hyper"),
        Begins("h2::"),
        Begins("slab::"),
        Begins("indexmap"),
        Begins("http::"),
        Begins("http_body"),
        Begins("httparse"),
        Begins("httpdate"),
        Begins("tonic"),
        Begins("tower"),
        Begins("axum"),
        Begins("matchit"),
        Begins("silverback::api"),
        Begins("silverback_runtime::http"),
        Begins("silverback_runtime::net"),
        Begins("silverback_benches::contender::service"),
        Begins("silverback_benches::contender::grpc"),
        Has("as hyper"),
        Has("http::"),
        Has("h2::"),
        Has("te_is_trailers"),
    ],
};

const RUNTIME: Group = Group {
    name: "runtime: tasks, lanes, locks, timers",
    is_kernel: false,
    patterns: &[
        Begins("glommio"),
        Has("glommio::"),
        Begins("tokio"),
        Has("tokio::"),
        Begins("mio::"),
        Begins("silverback_runtime"),
        Begins("silverback_host"),
        Begins("silverback::"),
        Begins("silverback_benches::contender"),
        Begins("futures"),
        Begins("crossbeam"),
        Begins("flume"),
        Has("nanosleep"),
        Begins("core::future"),
        Begins("core::pin"),
        Begins("core::panic::unwind_safe"),
        Begins("core::task"),
        Begins("std::sync"),
        Begins("std::thread"),
        Begins("std::time"),
        Begins("std::sys"),
        Begins("parking_lot"),
        Begins("core::sync"),
        Has("clock_gettime"),
        Begins("epoll_"),
        Is("syscall"),
        Has("pthread"),
        Has("io_uring"),
        Begins("send"),
        Begins("recv"),
        Begins("__send"),
        Begins("__recv"),
        Begins("__libc_"),
        Begins("core::ops::function"),
    ],
};

#[cfg(test)]
mod tests {
    use super::super::groups::tests::{check_sound, symbol};
    use super::super::groups::{KERNEL_OTHER, OTHER, group_of};
    use super::*;

    #[test]
    fn each_pattern_can_be_reached() {
        check_sound(SERVER);
    }

    #[test]
    fn symbols_that_were_seen_are_where_they_belong() {
        let check = |is_kernel, name: &str, group: Group| {
            assert_eq!(group_of(SERVER, &symbol(is_kernel, name, 1)), group.name, "{name}");
        };
        for (name, group) in [
            ("clear_page_erms", KERNEL_MEMORY),
            ("vma_alloc_anon_folio_pmd", KERNEL_MEMORY),
            ("finish_task_switch.isra.0", KERNEL_SCHEDULING),
            ("__x64_sys_futex", KERNEL_SCHEDULING),
            ("iowrite16", KERNEL_DISK),
            ("io_submit_sqes", KERNEL_RING),
            ("ext4_block_write_begin", KERNEL_DISK),
            ("copy_folio_from_iter_atomic", KERNEL_DISK),
            ("__tcp_transmit_skb", KERNEL_SOCKETS),
            ("_copy_to_iter", KERNEL_SOCKETS),
            ("ep_send_events", KERNEL_SOCKETS),
            ("do_syscall_64", KERNEL_ENTRY),
            ("_raw_spin_lock", KERNEL_ENTRY),
        ] {
            check(true, name, group);
        }
        for (name, group) in [
            ("snap::decompress::Decoder::decompress", SNAPPY),
            ("silverback::api::ingest::remote_write::v1::SeriesSlice<S>::pass_labelled", DECODING),
            ("silverback::api::ingest::write::decode_slice", DECODING),
            ("xxhash_rust::xxh3::xxh3_128_129to240", DECODING),
            ("silverback_storage::wal::record::series::Symbols::number", LOG),
            (
                "<silverback_runtime::disk::file::DirectFile as silverback_host::disk::File>::write_at::{{closure}}",
                LOG,
            ),
            ("silverback_storage::shard::worker::Worker<L,H,R>::take_turn::{{closure}}", APPEND),
            ("silverback_model::gorilla::xor::OpenXor::append", APPEND),
            ("core::ptr::drop_in_place<silverback_storage::cell::series::SeriesHistory>", APPEND),
            ("__memmove_avx512_unaligned_erms", MEMORY),
            ("_mi_page_malloc_zero", MEMORY),
            ("<T as hyper::service::http::HttpService<B1>>::call", TRANSPORT),
            (
                "core::ptr::drop_in_place<[http::header::map::Bucket<http::header::value::HeaderValue>]>",
                TRANSPORT,
            ),
            (
                "<glommio::sys::uring::SleepableRing as glommio::sys::uring::UringCommon>::submit_one_event",
                RUNTIME,
            ),
            ("<core::pin::Pin<P> as core::future::future::Future>::poll", RUNTIME),
            ("tokio::runtime::task::raw::poll", RUNTIME),
            ("silverback_benches::contender::stripes::Stripes::try_lock", RUNTIME),
        ] {
            check(false, name, group);
        }
    }

    #[test]
    fn what_nobody_knows_is_in_no_group() {
        assert_eq!(group_of(SERVER, &symbol(true, "put_dec_trunc8", 1)), KERNEL_OTHER);
        assert_eq!(group_of(SERVER, &symbol(false, "[unknown]", 1)), OTHER);
    }
}
