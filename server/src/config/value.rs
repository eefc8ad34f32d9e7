//! Values as people write them: durations (`26h`), sizes (`32MiB`), counts (`5e7`), words.
//!
//! Each kind takes what is allowed, and names it when it refuses. Knows no option.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::error::ValueError;
use silverback_model::duration::{self, UNITS_MS, UnitOrder};

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const HOUR: Duration = Duration::from_secs(60 * 60);
pub(super) const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Binary units with and without the `B`, as Kubernetes writes them; decimal ones only with it,
/// because a bare `M` means either to different people.
const SIZE_UNITS: [(&str, u64); 15] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("Ti", 1 << 40),
    ("Gi", 1 << 30),
    ("Mi", 1 << 20),
    ("Ki", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1_000),
    ("kB", 1_000),
    ("B", 1),
    ("", 1),
];

/// A kind of its own: how it is read, and how shown.
pub(super) struct Own<Text: ?Sized, T, Shown>(pub fn(&Text) -> Result<T, ValueError>, pub fn(&T) -> Shown);

impl<Text: ?Sized, T, Shown> Own<Text, T, Shown> {
    pub(super) fn read(&self, text: &Text) -> Result<T, ValueError> {
        (self.0)(text)
    }

    pub(super) fn show(&self, value: &T) -> Shown {
        (self.1)(value)
    }
}

/// An enum by words: what is wrong with any other text, then each variant's word.
macro_rules! words {
    ($wrong:literal: $type:ident { $first:ident = $first_word:literal $(, $variant:ident = $word:literal)* }) => {
        Own::<str, $type, String>(
            |text| match text {
                $first_word => Ok($type::$first),
                $($word => Ok($type::$variant),)*
                _ => Err(ValueError::new(
                    format!("{text:?} {}", $wrong),
                    concat!("allowed: ", $first_word $(, ", ", $word)*),
                )),
            },
            |value| match value {
                $type::$first => $first_word.to_owned(),
                $($type::$variant => $word.to_owned(),)*
            },
        )
    };
}
pub(super) use words;

/// A value from one bound to another.
pub(super) struct Ranged<T> {
    allowed: RangeInclusive<T>,
    noun: &'static str,
    /// What follows the bounds in a refusal.
    pub examples: &'static str,
    parse: fn(&str) -> Option<T>,
    show: fn(&T) -> String,
}

impl<T: PartialOrd> Ranged<T> {
    pub(super) fn read(&self, text: &str) -> Result<T, ValueError> {
        let Self { allowed, noun, examples, .. } = self;
        let wrong = match (self.parse)(text) {
            None => format!("{text:?} is not {noun}"),
            Some(value) if value < *allowed.start() => format!("{text} is too small"),
            Some(value) if value > *allowed.end() => format!("{text} is too large"),
            Some(value) => return Ok(value),
        };
        let (min, max) = (self.show(allowed.start()), self.show(allowed.end()));
        Err(ValueError::new(wrong, format!("allowed: {noun} from {min} to {max}{examples}")))
    }

    /// `None`: the text is the word that is allowed besides.
    pub(super) fn read_unless(&self, word: &str, text: &str) -> Result<Option<T>, ValueError> {
        if text == word {
            return Ok(None);
        }
        let allowed = format!("allowed: {word}, or ");
        self.read(text)
            .map(Some)
            .map_err(|p| ValueError::new(p.wrong, p.allowed.replacen("allowed: ", &allowed, 1)))
    }

    pub(super) fn show(&self, value: &T) -> String {
        (self.show)(value)
    }
}

pub(super) fn duration(allowed: RangeInclusive<Duration>) -> Ranged<Duration> {
    let examples = ", such as 500ms, 15s, 5m, 26h, 2d or 1h30m";
    Ranged { allowed, noun: "a duration", examples, parse: parse_duration, show: show_duration }
}

pub(super) fn size(allowed: RangeInclusive<usize>) -> Ranged<usize> {
    let examples = ", such as 1048576, 512KiB, 32MiB or 10MB";
    Ranged { allowed, noun: "a size", examples, parse: parse_size, show: show_size }
}

pub(super) fn count<T: TryFrom<u64> + ToString>(allowed: RangeInclusive<T>) -> Ranged<T> {
    let parse = |text: &str| parse_count(text)?.try_into().ok();
    Ranged { allowed, noun: "a whole number", examples: "", parse, show: show_count }
}

fn parse_duration(text: &str) -> Option<Duration> {
    if text == "0" { Some(Duration::ZERO) } else { duration::parse_duration(text, UnitOrder::Descending) }
}

/// In the largest unit up to days that needs no fraction: 26 hours stay `26h`.
pub(super) fn show_duration(duration: &Duration) -> String {
    let total_ms = duration.as_millis() as u64;
    let units = UNITS_MS.iter().skip_while(|(unit, _)| matches!(*unit, "y" | "w"));
    match units.copied().find(|(_, unit_ms)| total_ms.is_multiple_of(*unit_ms)) {
        Some((unit, unit_ms)) if total_ms > 0 => format!("{}{unit}", total_ms / unit_ms),
        Some(_) | None => "0".to_owned(),
    }
}

fn parse_size(text: &str) -> Option<usize> {
    let (number, unit) = split_number(text)?;
    let (_, unit_bytes) = SIZE_UNITS.iter().find(|(name, _)| *name == unit.trim_start())?;
    usize::try_from(number.checked_mul(*unit_bytes)?).ok()
}

/// In the largest binary unit that needs no fraction.
pub(super) fn show_size(bytes: &usize) -> String {
    let bytes = *bytes as u64;
    match SIZE_UNITS[..4].iter().find(|(_, unit)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, unit_bytes)) => format!("{}{unit}", bytes / unit_bytes),
        None => bytes.to_string(),
    }
}

/// Also `5e7` and `50_000_000`: nobody counts zeros well.
fn parse_count(text: &str) -> Option<u64> {
    let digits = text.replace('_', "");
    if let Ok(number) = digits.parse() {
        return Some(number);
    }
    let float: f64 = digits.parse().ok()?;
    // Beyond 2^53 a float isn't the number that was written.
    let exact = float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float);
    exact.then_some(float as u64)
}

/// Round numbers above a million in exponent form.
pub(super) fn show_count(count: &impl ToString) -> String {
    let digits = count.to_string();
    let significant = digits.trim_end_matches('0');
    let zeros = digits.len() - significant.len();
    if zeros >= 6 && significant.len() == 1 { format!("{significant}e{zeros}") } else { digits }
}

fn split_number(text: &str) -> Option<(u64, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_duration(text: &str, expect_ms: Option<u64>) {
        assert_eq!(parse_duration(text), expect_ms.map(Duration::from_millis), "{text:?}");
    }

    #[test]
    fn durations_are_written_as_in_prometheus() {
        check_duration("500ms", Some(500));
        check_duration("15s", Some(15_000));
        check_duration("5m", Some(300_000));
        check_duration("26h", Some(93_600_000));
        check_duration("2d", Some(172_800_000));
        check_duration("1w", Some(604_800_000));
        check_duration("1y", Some(31_536_000_000));
        check_duration("1h30m", Some(5_400_000));
        check_duration("1d2h3m4s5ms", Some(93_784_005));
        check_duration("0", Some(0));
        check_duration("0s", Some(0));
    }

    #[test]
    fn what_prometheus_refuses_as_a_duration_is_refused() {
        let bad = ["", "5", "h", "5x", "1.5h", "-5s", "30m1h", "1h1h", "5 s", "1h ", "99999999999999y", "5M"];
        bad.into_iter().for_each(|text| check_duration(text, None));
    }

    #[test]
    fn durations_are_shown_in_one_unit_without_a_fraction() {
        for text in ["500ms", "15s", "5m", "26h", "2d", "365d", "90m", "0"] {
            assert_eq!(parse_duration(text).as_ref().map(show_duration).as_deref(), Some(text));
        }
    }

    fn check_size(text: &str, expect: Option<usize>) {
        assert_eq!(parse_size(text), expect, "{text:?}");
    }

    #[test]
    fn sizes_know_binary_and_decimal_units() {
        check_size("1048576", Some(1 << 20));
        check_size("32MiB", Some(32 << 20));
        check_size("32 MiB", Some(32 << 20));
        check_size("32Mi", Some(32 << 20));
        check_size("10MB", Some(10_000_000));
        check_size("4kB", Some(4000));
        check_size("7B", Some(7));
    }

    #[test]
    fn ambiguous_or_broken_sizes_are_refused() {
        let bad = ["", "MiB", "32M", "32mib", "-1", "1.5GiB", "99999999TiB", "5 5"];
        bad.into_iter().for_each(|text| check_size(text, None));
    }

    #[test]
    fn sizes_are_shown_in_the_unit_they_fit() {
        assert_eq!(show_size(&(32 << 20)), "32MiB");
        assert_eq!(show_size(&1536), "1536");
        assert_eq!(show_size(&10_000_000), "10000000");
        assert_eq!(show_size(&0), "0");
    }

    #[test]
    fn counts_may_be_written_short() {
        let expect = [
            ("7", Some(7)),
            ("5e7", Some(50_000_000)),
            ("50_000_000", Some(50_000_000)),
            ("50000000.0", Some(50_000_000)),
            ("1.5", None),
            ("-1", None),
            ("1e300", None),
            ("NaN", None),
            ("", None),
        ];
        for (text, count) in expect {
            assert_eq!(parse_count(text), count, "{text:?}");
        }
        assert_eq!(show_count(&50_000_000), "5e7");
        assert_eq!(show_count(&10_000), "10000");
    }

    #[test]
    fn a_refusal_says_what_is_allowed() {
        let problem = duration(HOUR..=DAY).read("5m").unwrap_err();
        assert_eq!(problem.wrong, "5m is too small");
        assert!(problem.allowed.contains("from 1h to 1d"), "{}", problem.allowed);
        let problem = size(1024..=1 << 30).read("9GiB").unwrap_err();
        assert_eq!(problem.wrong, "9GiB is too large");
        assert!(problem.allowed.contains("from 1KiB to 1GiB"), "{}", problem.allowed);
    }
}
