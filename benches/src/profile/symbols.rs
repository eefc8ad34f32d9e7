//! What `perf report` prints, as symbols with their weights. It knows no groups and runs nothing.

/// One symbol of a process, with what was seen of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Whether the kernel's code ran.
    pub is_kernel: bool,
    /// As perf shows it.
    pub name: String,
    /// Events that its samples stand for: cycles, or nanoseconds.
    pub weight: u64,
    /// Samples that hit it.
    pub samples: u64,
}

/// What one process was seen doing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// The event that was sampled, by perf's name.
    pub event: String,
    /// The heaviest first.
    pub symbols: Vec<Symbol>,
}

/// The fields of a line, as `perf report` is asked for them.
pub const FIELDS: &str = "period,sample,dso,symbol";
/// What is between them.
pub const SEPARATOR: char = '\t';

/// The symbols in what `perf report` printed; the same symbol twice where it is in two objects.
pub fn parse(report: &str) -> Vec<Symbol> {
    report.lines().filter_map(symbol).collect()
}

/// `period⇥samples⇥object⇥[k] symbol`, padded with spaces; nothing of another line.
fn symbol(line: &str) -> Option<Symbol> {
    let mut fields = line.splitn(4, SEPARATOR).map(str::trim);
    let (weight, samples) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let (level, name) = fields.nth(1)?.split_once(' ')?;
    Some(Symbol { is_kernel: level == "[k]", name: name.trim().to_owned(), weight, samples })
}

/// The event in what `perf evlist` printed: `cpu-clock:ppp`, or `cpu_core/cycles/u`, of which only the name tells something.
pub fn event(evlist: &str) -> &str {
    parts(evlist).0
}

/// Whether what `perf evlist` printed says that the kernel's code was left out.
pub fn is_user_only(evlist: &str) -> bool {
    parts(evlist).1.contains('u')
}

/// The first event's name and its modifiers.
fn parts(evlist: &str) -> (&str, &str) {
    let first = evlist.lines().find(|line| !line.starts_with('#')).unwrap_or_default().trim();
    let ends = if first.contains('/') { '/' } else { ':' };
    first.rsplit_once(ends).unwrap_or((first, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_symbol_with_its_weight_and_others_are_left_out() {
        let report = "# Samples: 3\n\n 250752250  \t 250        \tsilverback       \t[.] <a::B as c::D<E, F>>::run::{{closure}}\n\
                      1003009\t1\t[kernel.kallsyms]\t[k] clear_page_erms  \nno line\n";
        let symbol = |is_kernel, name: &str, weight, samples| Symbol {
            is_kernel,
            name: name.to_owned(),
            weight,
            samples,
        };
        assert_eq!(
            parse(report),
            [
                symbol(false, "<a::B as c::D<E, F>>::run::{{closure}}", 250_752_250, 250),
                symbol(true, "clear_page_erms", 1_003_009, 1),
            ]
        );
    }

    #[test]
    fn an_event_is_named_without_its_modifiers_and_says_whether_the_kernel_is_in_it() {
        assert_eq!(event("cpu-clock:ppp\n# Tip: …\n"), "cpu-clock");
        assert_eq!(event("cycles\n"), "cycles");
        assert!(is_user_only("cycles:Pu\n") && is_user_only("cpu-clock:uppp\n"));
        assert!(!is_user_only("cpu-clock:ppp\n") && !is_user_only("cpu-clock\n"));
        assert!(is_user_only("# a remark: u\ncpu_core/cycles/u\n") && !is_user_only("cpu_core/cycles/\n"));
        assert_eq!(event("cpu_core/cycles/u\n"), "cpu_core/cycles");
    }
}
