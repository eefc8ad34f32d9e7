//! Sets of CPUs and nodes as the kernel writes them: `0-3,8`.
use std::collections::BTreeSet;

/// More than any machine has; keeps a damaged list from filling memory.
const NUMBER_MAX: usize = 1 << 16;

/// Reads `0-3,8`; nothing at all is the empty set.
pub(crate) fn parse(text: &str) -> Option<BTreeSet<usize>> {
    let text = text.trim();
    if text.is_empty() {
        return Some(BTreeSet::new());
    }
    let mut numbers = BTreeSet::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Digits alone: `parse` would take a sign, too.
fn number(text: &str) -> Option<usize> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| is_plain && number < NUMBER_MAX)
}

/// Writes a set as [`parse`] reads it.
pub(crate) fn show(numbers: impl IntoIterator<Item = usize>) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers.into_iter().collect::<BTreeSet<_>>() {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            Some(_) | None => ranges.push((number, number)),
        }
    }
    let shown = ranges.iter().map(|(first, last)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::{collection::btree_set, prelude::*};

    fn check(text: &str, expect: Option<&[usize]>) {
        assert_eq!(parse(text), expect.map(|numbers| numbers.iter().copied().collect()), "{text:?}");
    }

    #[test]
    fn ranges_and_single_numbers_are_read_with_or_without_the_line_s_end() {
        check("0-3,8\n", Some(&[0, 1, 2, 3, 8]));
        check("5", Some(&[5]));
        check("2,1,1-2", Some(&[1, 2]));
        check("\n", Some(&[]));
    }

    #[test]
    fn what_the_kernel_would_not_write_is_refused() {
        for text in
            ["0-", "-1", "3-1", "a", "+1", "1,,2", "1-2-3", "1 2", ",", "65536", "0-99999999999999999999"]
        {
            check(text, None);
        }
    }

    proptest! {
        #[test]
        fn a_set_that_was_written_is_read_again(numbers in btree_set(0..NUMBER_MAX, 0..200)) {
            prop_assert_eq!(parse(&show(numbers.iter().copied())), Some(numbers));
        }

        #[test]
        fn close_numbers_are_written_as_ranges_and_read_again(numbers in btree_set(0..64usize, 0..64)) {
            prop_assert_eq!(parse(&show(numbers.iter().copied())), Some(numbers));
        }

        #[test]
        fn any_text_is_read_or_refused_within_bounds(text in "[-0-9, \n+x]{0,24}") {
            for number in parse(&text).unwrap_or_default() {
                prop_assert!(number < NUMBER_MAX);
            }
        }

        #[test]
        fn any_bytes_at_all_are_read_or_refused(text in any::<String>()) {
            // Reading to the end without a panic is what is asked.
            let _ = parse(&text);
        }
    }
}
