//! The commands of a script.

use regex::Regex;
use silverback_model::Labels;
use silverback_promql::parse_duration_ms;

use crate::series::{Item, number, parse_line};

#[derive(Debug)]
pub(crate) enum Command {
    Clear,
    Load { step_ms: i64, series: Vec<(Labels, Vec<Item>)>, with_custom: bool },
    Eval(Box<Eval>),
}

#[derive(Debug, Default)]
pub(crate) struct Eval {
    pub line: usize,
    pub text: String,
    pub start_ms: i64,
    pub end_ms: i64,
    pub step_ms: i64,
    pub is_range: bool,
    pub is_ordered: bool,
    pub fails: Option<Wanted>,
    pub warnings: Vec<Wanted>,
    pub infos: Vec<Wanted>,
    pub no_warnings: bool,
    pub no_infos: bool,
    pub scalar: Option<f64>,
    pub string: Option<String>,
    /// Steps of a range vector.
    pub range_vector: Option<(i64, i64, i64)>,
    pub series: Vec<(Labels, Vec<Item>)>,
    /// What of the script wasn't understood.
    pub problem: Option<String>,
}

#[derive(Debug, Clone)]
pub(crate) enum Wanted {
    Any,
    Message(String),
    Matches(Regex),
}

impl Wanted {
    pub(crate) fn is_met_by(&self, text: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Message(message) => message == text,
            Self::Matches(regex) => regex.is_match(text),
        }
    }
}

pub(crate) fn parse(text: &str) -> Vec<Command> {
    let lines: Vec<&str> =
        text.lines().map(str::trim).map(|line| if line.starts_with('#') { "" } else { line }).collect();
    let mut commands = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let block_end =
            lines[at..].iter().position(|line| line.is_empty()).map_or(lines.len(), |len| at + len);
        let line = lines[at];
        if line.is_empty() {
            at += 1;
        } else if line == "clear" {
            commands.push(Command::Clear);
            at += 1;
        } else if line.starts_with("load") {
            commands.push(load(&lines[at..block_end]));
            at = block_end;
        } else {
            commands.push(Command::Eval(Box::new(eval(&lines[at..block_end], at + 1))));
            at = block_end;
        }
    }
    commands
}

fn load(lines: &[&str]) -> Command {
    let (command, step) = lines[0].split_once(' ').unwrap_or((lines[0], "1m"));
    // Times at which samples' series began aren't known to the engine.
    let is_start = |line: &&str| line.split_whitespace().next().is_some_and(|word| word.ends_with("@st"));
    let series = lines[1..].iter().filter(|line| !is_start(line));
    Command::Load {
        step_ms: parse_duration_ms(step.trim()).unwrap_or(60_000),
        series: series
            .map(|line| parse_line(line).unwrap_or_else(|error| panic!("{line}: {error}")))
            .collect(),
        with_custom: command.contains("with_nhcb"),
    }
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn duration(text: &str) -> i64 {
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |text| (-1, text));
    sign * parse_duration_ms(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn eval(lines: &[&str], line: usize) -> Eval {
    let instant = pattern(r"^eval(?:_(fail|warn|ordered|info))?\s+instant\s+(?:at\s+(.+?))?\s+(.+)$");
    let range =
        pattern(r"^eval(?:_(fail|warn|info))?\s+range\s+from\s+(.+)\s+to\s+(.+)\s+step\s+(.+?)\s+(.+)$");
    let mut eval = Eval { line, ..Eval::default() };
    let kind = if let Some(parts) = instant.captures(lines[0]) {
        eval.text = parts[3].to_owned();
        eval.start_ms = duration(&parts[2]);
        eval.end_ms = eval.start_ms;
        parts.get(1).map(|kind| kind.as_str().to_owned())
    } else if let Some(parts) = range.captures(lines[0]) {
        eval.text = parts[5].to_owned();
        eval.is_range = true;
        (eval.start_ms, eval.end_ms, eval.step_ms) =
            (duration(&parts[2]), duration(&parts[3]), duration(&parts[4]));
        parts.get(1).map(|kind| kind.as_str().to_owned())
    } else {
        eval.problem = Some(format!("{:?} is no command", lines[0]));
        return eval;
    };
    match kind.as_deref() {
        Some("fail") => eval.fails = Some(Wanted::Any),
        Some("warn") => eval.warnings.push(Wanted::Any),
        Some("info") => eval.infos.push(Wanted::Any),
        Some("ordered") => eval.is_ordered = true,
        _ => {}
    }
    for line in &lines[1..] {
        if let Err(problem) = expectation(&mut eval, line) {
            eval.problem = Some(format!("{line}: {problem}"));
        }
    }
    eval
}

fn expectation(eval: &mut Eval, line: &str) -> Result<(), String> {
    if let Some(message) = line.strip_prefix("expected_fail_message") {
        eval.fails = Some(Wanted::Message(message.trim().to_owned()));
    } else if let Some(regex) = line.strip_prefix("expected_fail_regexp") {
        eval.fails = Some(Wanted::Matches(pattern(regex.trim())));
    } else if let Some(text) = line.strip_prefix("expect string") {
        let text = silverback_model::literal::read(text.trim()).map_err(|(_, problem)| problem)?;
        eval.string = text.map(|(text, _)| text);
    } else if let Some(times) = line.strip_prefix("expect range vector") {
        let words: Vec<_> = times.split_whitespace().collect();
        let ["from", from, "to", to, "step", step] = words[..] else { return Err("no range".to_owned()) };
        eval.range_vector = Some((duration(from), duration(to), duration(step)));
    } else if line.starts_with("expect ") {
        expect(eval, line)?;
    } else if let Ok(value) = number(line) {
        eval.scalar = Some(value);
    } else {
        eval.series.push(parse_line(line)?);
    }
    Ok(())
}

fn expect(eval: &mut Eval, line: &str) -> Result<(), String> {
    let expect = pattern(r"^expect\s+(ordered|fail|warn|no_warn|info|no_info)(?:\s+(regex|msg):(.+))?$");
    let parts = expect.captures(line).ok_or("no expectation")?;
    let text = parts.get(3).map_or("", |text| text.as_str().trim());
    let wanted = match parts.get(2).map(|kind| kind.as_str()) {
        Some("msg") => Wanted::Message(text.to_owned()),
        Some(_) => Wanted::Matches(pattern(text)),
        None => Wanted::Any,
    };
    match &parts[1] {
        "ordered" => eval.is_ordered = true,
        "fail" => eval.fails = Some(wanted),
        "warn" => eval.warnings.push(wanted),
        "info" => eval.infos.push(wanted),
        "no_warn" => eval.no_warnings = true,
        _no_info => eval.no_infos = true,
    }
    Ok(())
}
