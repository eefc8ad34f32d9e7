//! The series that one target exposes, read from the table `node_exporter.txt`.
//! It knows no target: the labels that a scrape adds are the fleet's.

use crate::values::ValueKind;

/// One series of every target.
#[derive(Debug, Clone)]
pub struct SeriesTemplate {
    /// The metric's name.
    pub metric: String,
    /// How its values move.
    pub kind: ValueKind,
    /// Where they start, or how fast they move.
    pub base: f64,
    /// Its labels besides the name and the target's.
    pub labels: Vec<Label>,
    /// Its place among its metric's series, 0 for the first, below 1 for the last.
    rank: f64,
}

/// A label's name and value.
pub type Label = (String, String);

impl SeriesTemplate {
    /// Whether this is a counter, by the naming convention.
    pub fn is_counter(&self) -> bool {
        ["_total", "_sum", "_count"].iter().any(|suffix| self.metric.ends_with(suffix))
    }
}

/// Every series of the table, in its order.
pub fn all_templates() -> Vec<SeriesTemplate> {
    let table = include_str!("node_exporter.txt");
    table.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).flat_map(parse_line).collect()
}

/// `count` templates. Every metric's first series goes in before any metric's second, so a small
/// count still covers many names and the rest is thinned evenly.
pub fn templates(count: usize) -> Option<Vec<SeriesTemplate>> {
    let mut chosen = all_templates();
    if count > chosen.len() {
        return None;
    }
    chosen.sort_by(|a, b| a.rank.total_cmp(&b.rank));
    chosen.truncate(count);
    chosen.sort_by(|a, b| a.metric.cmp(&b.metric));
    Some(chosen)
}

/// The series of one line. The table is part of the program: a mistake in it is a bug.
fn parse_line(line: &str) -> Vec<SeriesTemplate> {
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_else(|| panic!("a word is missing: {line}"));
    let metrics = expand_braces(word());
    let kind = ValueKind::named(word()).unwrap_or_else(|| panic!("unknown kind: {line}"));
    let base: f64 = word().parse().unwrap_or_else(|_| panic!("not a number: {line}"));
    let label_sets = words.fold(vec![Vec::new()], |sets, group| multiply(&sets, &expand_group(group)));
    let template = |metric: &String, place: usize| SeriesTemplate {
        metric: metric.clone(),
        kind,
        base,
        labels: label_sets[place].clone(),
        rank: place as f64 / label_sets.len() as f64,
    };
    metrics
        .iter()
        .flat_map(|metric| (0..label_sets.len()).map(move |place| template(metric, place)))
        .collect()
}

/// `a_{b,c}_d` to `a_b_d` and `a_c_d`.
fn expand_braces(pattern: &str) -> Vec<String> {
    let Some((head, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (choices, tail) = rest.split_once('}').unwrap_or_else(|| panic!("no closing brace: {pattern}"));
    let tails = expand_braces(tail);
    let with_tails = |choice| tails.iter().map(move |tail| format!("{head}{choice}{tail}"));
    choices.split(',').flat_map(with_tails).collect()
}

/// The label sets of one group: `cpu=0..2`, `mode=idle,user` or `device+fstype=sda+ext4,sdb+xfs`.
fn expand_group(group: &str) -> Vec<Vec<Label>> {
    let (names, values) = group.split_once('=').unwrap_or_else(|| panic!("no = in {group}"));
    let pair = |combination: String| {
        let pairs = names.split('+').zip(combination.split('+'));
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    };
    expand_range(values)
        .unwrap_or_else(|| values.split(',').map(str::to_owned).collect())
        .into_iter()
        .map(pair)
        .collect()
}

/// `p0..3` to `p0`, `p1`, `p2`; nothing if this isn't a range.
fn expand_range(values: &str) -> Option<Vec<String>> {
    let (first, end) = values.split_once("..")?;
    let prefix = first.strip_suffix('0')?;
    Some((0..end.parse::<u32>().ok()?).map(|i| format!("{prefix}{i}")).collect())
}

/// Every set of `left` together with every set of `right`.
fn multiply(left: &[Vec<Label>], right: &[Vec<Label>]) -> Vec<Vec<Label>> {
    left.iter().flat_map(|l| right.iter().map(move |r| [l.as_slice(), r.as_slice()].concat())).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_table_has_no_series_twice() {
        let all = all_templates();
        let distinct: HashSet<_> = all.iter().map(|t| (&t.metric, &t.labels)).collect();
        assert_eq!(distinct.len(), all.len());
        assert!(all.len() > 800, "{} series", all.len());
    }

    #[test]
    fn a_small_count_covers_many_names() {
        let names: HashSet<_> = templates(300).expect("few enough").into_iter().map(|t| t.metric).collect();
        assert!(names.len() > 250, "{} names", names.len());
    }

    #[test]
    fn more_series_than_the_table_has_are_refused() {
        assert!(templates(all_templates().len() + 1).is_none());
    }

    #[test]
    fn a_line_multiplies_its_groups() {
        let series = parse_line("a_{x,y} level 1 cpu=c0..2 d+e=1+2,3+4");
        assert_eq!(series.len(), 8);
        let labels: Vec<_> = series[5].labels.iter().map(|(n, v)| format!("{n}={v}")).collect();
        assert_eq!((series[5].metric.as_str(), labels.join(" ").as_str()), ("a_y", "cpu=c0 d=3 e=4"));
    }
}
