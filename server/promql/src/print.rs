//! An expression as text again, on one line or laid out on several, as Prometheus prints it.

use std::fmt::{self, Display, Formatter, Write};

use silverback_model::Matcher;
use silverback_model::printable::is_bare_name;
use silverback_model::selector::MatchOp;

use crate::ast::{
    At, Binary, Card, Duration, Edge, Expr, FunctionCall, Length, MatrixSelector, NumberLiteral, Subquery,
    Time, Type, VectorSelector,
};
use crate::number::{format_duration, format_float, format_general, quote};

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Text(text) => f.write_str(&quote(&text.value)),
            Self::Vector(selector) => {
                write_selector(f, selector)?;
                write_edge(f, selector.edge)?;
                selector.time.fmt(f)
            }
            Self::Matrix(range) => range.fmt(f),
            Self::Subquery(subquery) => write!(f, "{}{}", subquery.expr, SubqueryTimes(subquery)),
            Self::Aggregate(aggregate) => {
                write!(f, "{}", Head::of(self))?;
                match &aggregate.parameter {
                    Some(parameter) => write!(f, "({parameter}, {})", aggregate.expr),
                    None => write!(f, "({})", aggregate.expr),
                }
            }
            Self::Binary(binary) => {
                let (first, links) = binary.chain();
                first.fmt(f)?;
                links.into_iter().try_for_each(|link| write!(f, " {} {}", Operation(link), link.right))
            }
            Self::Call(call) => call.fmt(f),
            Self::Paren(paren) => write!(f, "({})", paren.expr),
            Self::Unary(unary) => write!(f, "{}{}", if unary.negative { "-" } else { "+" }, unary.expr),
        }
    }
}

/// An expression's own part, without the expressions in it.
struct Head<'a>(&'a Expr);

impl<'a> Head<'a> {
    const fn of(expr: &'a Expr) -> Self {
        Self(expr)
    }
}

impl Display for Head<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Expr::Aggregate(aggregate) => {
                f.write_str(aggregate.aggregator.as_str())?;
                let labels = &aggregate.grouping.labels;
                if aggregate.grouping.without {
                    write!(f, " without ({}) ", Names(labels))
                } else if labels.is_empty() {
                    Ok(())
                } else {
                    write!(f, " by ({}) ", Names(labels))
                }
            }
            Expr::Call(call) => f.write_str(call.signature.name),
            Expr::Binary(_)
            | Expr::Number(_)
            | Expr::Text(_)
            | Expr::Vector(_)
            | Expr::Matrix(_)
            | Expr::Subquery(_)
            | Expr::Paren(_)
            | Expr::Unary(_) => Ok(()),
        }
    }
}

/// An operator with its modifiers, without what it is between.
struct Operation<'a>(&'a Binary);

impl Display for Operation<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_operator(f, self.0)
    }
}

fn write_operator(f: &mut Formatter<'_>, binary: &Binary) -> fmt::Result {
    f.write_str(binary.operator.as_str())?;
    if binary.returns_bool {
        f.write_str(" bool")?;
    }
    let are_vectors = binary.left.kind() == Type::Vector && binary.right.kind() == Type::Vector;
    let Some(matching) = binary.matching.as_ref().filter(|_| are_vectors) else { return Ok(()) };
    let side = match matching.card {
        Card::ManyToOne => Some("left"),
        Card::OneToMany => Some("right"),
        Card::OneToOne | Card::ManyToMany => None,
    };
    if !matching.labels.is_empty() || matching.on || side.is_some() {
        let word = if matching.on { "on" } else { "ignoring" };
        write!(f, " {word} ({})", Names(&matching.labels))?;
    }
    if let Some(side) = side {
        write!(f, " group_{side} ({})", Names(&matching.include))?;
    }
    match (matching.fill_left, matching.fill_right) {
        (Some(left), Some(right)) if left == right => write!(f, " fill ({})", format_general(left)),
        (left, right) => {
            for (word, value) in [("fill_left", left), ("fill_right", right)] {
                if let Some(value) = value {
                    write!(f, " {word} ({})", format_general(value))?;
                }
            }
            Ok(())
        }
    }
}

/// Label names with commas between them.
struct Names<'a>(&'a [Box<str>]);

impl Display for Names<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for (i, name) in self.0.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            match is_bare_name(name) {
                true => write!(f, "{comma}{name}")?,
                false => write!(f, "{comma}{}", quote(name))?,
            }
        }
        Ok(())
    }
}

impl Display for NumberLiteral {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.is_duration {
            true => f.write_str(&format_duration((self.value * 1000.0).round() as i64)),
            false => f.write_str(&format_float(self.value)),
        }
    }
}

impl Display for FunctionCall {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.signature.name)?;
        for (i, argument) in self.arguments.iter().enumerate() {
            write!(f, "{}{argument}", if i == 0 { "" } else { ", " })?;
        }
        f.write_char(')')
    }
}

/// A selector's matcher as PromQL writes it.
pub(crate) fn matcher_text(matcher: &Matcher) -> String {
    let name = if is_bare_name(&matcher.name) { matcher.name.to_string() } else { quote(&matcher.name) };
    format!("{name}{}{}", matcher.op.operator(), quote(&matcher.value))
}

fn write_selector(f: &mut Formatter<'_>, selector: &VectorSelector) -> fmt::Result {
    let is_own_name = |matcher: &&Matcher| {
        &*matcher.name == "__name__"
            && matcher.op == MatchOp::Equal
            && matcher.value == selector.name
            && !matcher.value.is_empty()
    };
    let mut texts: Vec<_> =
        selector.matchers.iter().filter(|matcher| !is_own_name(matcher)).map(matcher_text).collect();
    f.write_str(&selector.name)?;
    if !texts.is_empty() {
        texts.sort();
        write!(f, "{{{}}}", texts.join(","))?;
    }
    Ok(())
}

fn write_edge(f: &mut Formatter<'_>, edge: Edge) -> fmt::Result {
    match edge {
        Edge::Plain => Ok(()),
        Edge::Anchored => f.write_str(" anchored"),
        Edge::Smoothed => f.write_str(" smoothed"),
    }
}

impl Display for Time {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.at {
            None => {}
            Some(At::Ms(ms)) => write!(f, " @ {:.3}", ms as f64 / 1000.0)?,
            Some(At::Start) => f.write_str(" @ start()")?,
            Some(At::End) => f.write_str(" @ end()")?,
        }
        match &self.offset {
            None | Some(Length::Ms(0)) => Ok(()),
            Some(offset) => write!(f, " offset {offset}"),
        }
    }
}

impl Display for Length {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ms(ms) => f.write_str(&format_duration(*ms)),
            Self::Computed(duration) => duration.fmt(f),
        }
    }
}

impl Display for Duration {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Step(_) => f.write_str("step()"),
            Self::Range(_) => f.write_str("range()"),
            Self::Unary { negative, operand, .. } => {
                write!(f, "{}{operand}", if *negative { "-" } else { "" })
            }
            Self::Binary { operator, left, right } => write!(f, "{left} {} {right}", operator.as_str()),
            Self::Choice { takes_max, left, right, .. } => {
                write!(f, "{}_of({left}, {right})", if *takes_max { "max" } else { "min" })
            }
            Self::Paren { inner, .. } => write!(f, "({inner})"),
        }
    }
}

impl Display for MatrixSelector {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write_selector(f, &self.selector)?;
        write!(f, "[{}]", self.range)?;
        write_edge(f, self.selector.edge)?;
        self.selector.time.fmt(f)
    }
}

struct SubqueryTimes<'a>(&'a Subquery);

impl Display for SubqueryTimes<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "[{}:", self.0.range)?;
        if let Some(step) = &self.0.step {
            step.fmt(f)?;
        }
        write!(f, "]{}", self.0.time)
    }
}

/// What is longer is on several lines.
const LINE_CHARS_MAX: usize = 100;

/// What an expression may be laid out: the parts of a long chain are indented, each more than the one after it.
pub const LAID_OUT_BYTES_MAX: usize = 4 << 20;

/// Laid out on lines of about 100 characters; `None`: it would be longer than [`LAID_OUT_BYTES_MAX`].
pub(crate) fn pretty(expr: &Expr) -> Option<String> {
    let mut out = String::new();
    write_pretty(&mut out, expr, 0);
    (out.len() <= LAID_OUT_BYTES_MAX).then_some(out)
}

fn indent(level: usize) -> String {
    "  ".repeat(level)
}

fn write_pretty(out: &mut String, expr: &Expr, level: usize) {
    if out.len() > LAID_OUT_BYTES_MAX {
        return;
    }
    let text = expr.to_string();
    if text.len() <= LINE_CHARS_MAX {
        *out += &indent(level);
        *out += &text;
        return;
    }
    let margin = indent(level);
    match expr {
        Expr::Aggregate(aggregate) => {
            *out += &format!("{margin}{}(\n", Head::of(expr));
            if let Some(parameter) = &aggregate.parameter {
                write_pretty(out, parameter, level + 1);
                *out += ",\n";
            }
            write_pretty(out, &aggregate.expr, level + 1);
            *out += &format!("\n{margin})");
        }
        Expr::Binary(binary) => write_chain(out, binary, level),
        Expr::Call(call) => {
            *out += &format!("{margin}{}(\n", call.signature.name);
            for (i, argument) in call.arguments.iter().enumerate() {
                *out += if i == 0 { "" } else { ",\n" };
                write_pretty(out, argument, level + 1);
            }
            *out += &format!("\n{margin})");
        }
        Expr::Paren(paren) => {
            *out += &format!("{margin}(\n");
            write_pretty(out, &paren.expr, level + 1);
            *out += &format!("\n{margin})");
        }
        Expr::Subquery(subquery) => {
            write_pretty(out, &subquery.expr, level);
            *out += &SubqueryTimes(subquery).to_string();
        }
        Expr::Unary(unary) => {
            let mut inner = String::new();
            write_pretty(&mut inner, &unary.expr, level);
            *out += &format!(
                "{margin}{}{}",
                if unary.negative { "-" } else { "+" },
                inner.trim_start_matches(' ')
            );
        }
        Expr::Number(_) | Expr::Text(_) | Expr::Vector(_) | Expr::Matrix(_) => {
            *out += &format!("{margin}{text}")
        }
    }
}

/// Each operator on a line, its sides around it; what of the chain fits a line from its start on is one.
fn write_chain(out: &mut String, binary: &Binary, level: usize) {
    let (first, links) = binary.chain();
    let text = |link: &Binary| format!(" {} {}", Operation(link), link.right);
    let mut line = first.to_string();
    let mut on_line = 0;
    for link in &links {
        line += &text(link);
        if line.len() > LINE_CHARS_MAX {
            break;
        }
        on_line += 1;
    }
    let level_of = |link: usize| level + links.len() - 1 - link;
    match on_line {
        0 => write_pretty(out, first, level_of(0) + 1),
        _some => {
            let whole = links[..on_line].iter().map(|link| text(link)).collect::<String>();
            *out += &format!("{}{first}{whole}", indent(level_of(on_line - 1)));
        }
    }
    for (at, link) in links.iter().enumerate().skip(on_line) {
        if out.len() > LAID_OUT_BYTES_MAX {
            return;
        }
        *out += &format!("\n{}{}\n", indent(level_of(at)), Operation(link));
        write_pretty(out, &link.right, level_of(at) + 1);
    }
}
