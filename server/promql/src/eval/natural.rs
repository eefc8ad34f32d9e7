//! The order of texts with numbers in them: `node2` before `node10`.

use std::cmp::Ordering;

use silverback_model::Labels;

/// By the values of some labels in turn.
pub(super) fn by_labels(left: &Labels, right: &Labels, names: &[&str]) -> Ordering {
    let values = |name: &str| (left.get(name).unwrap_or_default(), right.get(name).unwrap_or_default());
    names
        .iter()
        .map(|name| {
            let (left, right) = values(name);
            if left == right { Ordering::Equal } else { natural(left, right) }
        })
        .find(|order| order.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// Runs of digits by their numbers, all else by characters.
fn natural(left: &str, right: &str) -> Ordering {
    let (mut left, mut right) = (left, right);
    while !left.is_empty() && !right.is_empty() {
        let ((left_run, left_rest), (right_run, right_rest)) = (run(left), run(right));
        let order = match (is_number(left_run), is_number(right_run)) {
            (true, true) => {
                let digits = |run: &str| run.trim_start_matches('0').to_owned();
                let (left, right) = (digits(left_run), digits(right_run));
                left.len()
                    .cmp(&right.len())
                    .then_with(|| left.cmp(&right))
                    .then_with(|| left_run.len().cmp(&right_run.len()))
            }
            (_, _) => left_run.cmp(right_run),
        };
        if order.is_ne() {
            return order;
        }
        (left, right) = (left_rest, right_rest);
    }
    left.len().cmp(&right.len())
}

fn is_number(run: &str) -> bool {
    run.starts_with(|c: char| c.is_ascii_digit())
}

/// The first run of digits, or of anything else.
fn run(text: &str) -> (&str, &str) {
    let is_number = is_number(text);
    text.split_at(text.find(|c: char| c.is_ascii_digit() != is_number).unwrap_or(text.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_within_texts_are_compared_as_numbers() {
        for (less, more) in [("a2", "a10"), ("a", "b"), ("a1", "a1b"), ("x9y2", "x9y11"), ("", "a")] {
            assert_eq!(natural(less, more), Ordering::Less, "{less} {more}");
            assert_eq!(natural(more, less), Ordering::Greater, "{less} {more}");
        }
    }
}
