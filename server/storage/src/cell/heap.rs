//! What an allocation takes of the allocator: the node's own memory accounting in place of a
//! question to the allocator for each piece.
//!
//! The numbers are mimalloc's (version 3): size classes, four for each power of two, and blocks of
//! one class in pages of their own, where what is left at a page's end is nobody's. How near the sums
//! come to resident memory is tested against the kernel's own count.

/// Pages by the largest block that they are for. What is larger is a page of its own.
const PAGES: [(usize, usize); 3] = [(64 << 10, 10 << 10), (512 << 10, 84 << 10), (4 << 20, 512 << 10)];
/// A larger block has a page of its own.
const LARGEST_OF_MANY_BYTES: usize = PAGES[PAGES.len() - 1].1;
/// What a page keeps of itself for its own books.
const PAGE_HEADER_BYTES: usize = 256;
/// Pages are made of these.
const SLICE_BYTES: usize = 64 << 10;
/// A block is aligned to this anyway.
const ALIGNED_BYTES: usize = 16;

/// The resident bytes of an allocation of `bytes`.
#[inline]
pub(crate) const fn heap_bytes(bytes: usize) -> usize {
    let class = match bytes {
        0 => return 0,
        1..=8 => 8,
        9..=64 => bytes.next_multiple_of(16),
        // By far the most of them; what their page loses is little.
        65..=512 => return bytes.next_multiple_of(bytes.next_power_of_two() / 8),
        _ => bytes.next_multiple_of(bytes.next_power_of_two() / 8),
    };
    share_of_page(class)
}

/// The same of a vector's or a boxed slice's buffer with room for `count` values, but not of what
/// these hold elsewhere.
#[inline]
pub(crate) const fn array_bytes<T>(count: usize) -> usize {
    let bytes = count * size_of::<T>();
    // A larger alignment is made in a larger block.
    let slack = if align_of::<T>() > ALIGNED_BYTES && bytes > 0 { align_of::<T>() - 1 } else { 0 };
    heap_bytes(bytes + slack)
}

/// The same of a vector's buffer.
#[inline]
pub(crate) fn vec_bytes<T>(vec: &Vec<T>) -> usize {
    array_bytes::<T>(vec.capacity())
}

/// Has the allocator give back what it has kept for a while and nobody has asked for. It looks for that
/// only where a whole page is freed: where nothing is, what reads took would stay resident. So a page that
/// isn't backed by memory is taken and freed.
pub fn give_back() {
    drop(std::hint::black_box(Vec::<u8>::with_capacity(LARGEST_OF_MANY_BYTES + 1)));
}

/// A block with its part of what its page can't use.
const fn share_of_page(class: usize) -> usize {
    let mut i = 0;
    while i < PAGES.len() {
        let (page_bytes, block_bytes_max) = PAGES[i];
        if class <= block_bytes_max {
            return page_bytes / ((page_bytes - PAGE_HEADER_BYTES) / class);
        }
        i += 1;
    }
    class.next_multiple_of(SLICE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: usize, expect: usize) {
        assert_eq!(heap_bytes(bytes), expect, "{bytes}");
    }

    #[test]
    fn an_allocation_takes_its_size_class() {
        check(0, 0);
        check(1, 8);
        check(9, 16);
        check(40, 48);
        check(64, 64);
        check(65, 80);
        check(129, 160);
        check(200, 224);
    }

    #[test]
    fn large_blocks_take_their_part_of_what_their_page_can_t_use() {
        check(1024, (64 << 10) / 63);
        check(8192, (64 << 10) / 7);
        check(64 << 10, (512 << 10) / 7);
        check(600 << 10, 640 << 10);
        check(5_000_000, 5_242_880);
    }

    #[test]
    fn an_array_takes_what_it_has_room_for() {
        #[repr(align(64))]
        struct Line([u8; 64]);
        assert_eq!(vec_bytes(&Vec::<u64>::new()), 0);
        assert_eq!(vec_bytes(&Vec::<u64>::with_capacity(4)), 32);
        assert_eq!(array_bytes::<Line>(0), 0);
        assert_eq!(array_bytes::<Line>(1024), (512 << 10) / 6);
        assert_eq!(size_of_val(&Line([0; 64]).0), 64);
    }
}
