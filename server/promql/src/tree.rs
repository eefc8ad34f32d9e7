//! An expression as a tree in JSON, in the shape that Prometheus' `parse_query` answers with.

use std::fmt::Write;

use silverback_model::Matcher;

use crate::ast::{At, Binary, Card, Duration, Edge, Expr, Length, Matching, Time, Type, VectorSelector};
use crate::functions::Variadic;
use crate::json::write_text;
use crate::number::format_float;

/// The whole tree.
pub(crate) fn tree_json(expr: &Expr) -> String {
    let mut out = String::new();
    write_expr(&mut out, expr);
    out
}

/// Writes an object's fields in turn.
struct Object<'a> {
    out: &'a mut String,
    is_first: bool,
}

impl<'a> Object<'a> {
    fn open(out: &'a mut String) -> Self {
        out.push('{');
        Self { out, is_first: true }
    }

    fn field(&mut self, name: &str) -> &mut String {
        if !self.is_first {
            self.out.push(',');
        }
        self.is_first = false;
        let _ = write!(self.out, "\"{name}\":");
        self.out
    }

    fn text(&mut self, name: &str, value: &str) {
        write_text(self.field(name), value);
    }

    fn raw(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = write!(self.field(name), "{value}");
    }

    fn expr(&mut self, name: &str, expr: Option<&Expr>) {
        let out = self.field(name);
        match expr {
            Some(expr) => write_expr(out, expr),
            None => out.push_str("null"),
        }
    }

    fn texts<'t>(&mut self, name: &str, texts: impl Iterator<Item = &'t str>) {
        let out = self.field(name);
        out.push('[');
        for (i, text) in texts.enumerate() {
            if i > 0 {
                out.push(',');
            }
            write_text(out, text);
        }
        out.push(']');
    }

    fn close(self) {
        self.out.push('}');
    }
}

fn write_expr(out: &mut String, expr: &Expr) {
    let mut object = Object::open(out);
    match expr {
        Expr::Number(number) => {
            object.text("type", "numberLiteral");
            object.text("val", &format_float(number.value));
        }
        Expr::Text(text) => {
            object.text("type", "stringLiteral");
            object.text("val", &text.value);
        }
        Expr::Paren(paren) => {
            object.expr("expr", Some(&paren.expr));
            object.text("type", "parenExpr");
        }
        Expr::Unary(unary) => {
            object.expr("expr", Some(&unary.expr));
            object.text("op", if unary.negative { "-" } else { "+" });
            object.text("type", "unaryExpr");
        }
        Expr::Vector(selector) => {
            write_edge(&mut object, selector.edge);
            write_matchers(&mut object, &selector.matchers);
            write_selector(&mut object, selector);
            object.text("type", "vectorSelector");
        }
        Expr::Matrix(range) => {
            write_edge(&mut object, range.selector.edge);
            write_matchers(&mut object, &range.selector.matchers);
            write_selector(&mut object, &range.selector);
            write_length(&mut object, "range", Some(&range.range));
            object.text("type", "matrixSelector");
        }
        Expr::Subquery(subquery) => {
            object.expr("expr", Some(&subquery.expr));
            write_time(&mut object, &subquery.time);
            write_length(&mut object, "range", Some(&subquery.range));
            write_length(&mut object, "step", subquery.step.as_ref());
            object.text("type", "subquery");
        }
        Expr::Aggregate(aggregate) => {
            object.expr("expr", Some(&aggregate.expr));
            object.texts("grouping", aggregate.grouping.labels.iter().map(|label| &**label));
            object.text("op", aggregate.aggregator.as_str());
            object.expr("param", aggregate.parameter.as_ref());
            object.text("type", "aggregation");
            object.raw("without", aggregate.grouping.without);
        }
        Expr::Binary(binary) => {
            let (first, links) = binary.chain();
            // From the outermost inwards each is in the left side of the one before.
            for (at, link) in links.iter().rev().enumerate() {
                if at > 0 {
                    object = Object::open(object.out);
                }
                object.raw("bool", link.returns_bool);
                object.field("lhs");
            }
            write_expr(object.out, first);
            for (at, link) in links.iter().enumerate() {
                if at > 0 {
                    object.out.push('}');
                }
                write_right(&mut object, link);
            }
        }
        Expr::Call(call) => {
            let arguments = object.field("args");
            arguments.push('[');
            for (i, argument) in call.arguments.iter().enumerate() {
                if i > 0 {
                    arguments.push(',');
                }
                write_expr(arguments, argument);
            }
            arguments.push(']');
            let mut function = Object::open(object.field("func"));
            function.texts("argTypes", call.signature.arguments.iter().map(|kind| kind.name()));
            function.text("name", call.signature.name);
            function.text("returnType", call.signature.returns.name());
            match call.signature.variadic {
                Variadic::No => function.raw("variadic", 0),
                Variadic::UpTo(more) => function.raw("variadic", more),
                Variadic::Any => function.raw("variadic", -1),
            }
            function.close();
            object.text("type", "call");
        }
    }
    object.close();
}

/// What of an operator comes after its left side.
fn write_right(object: &mut Object<'_>, binary: &Binary) {
    let are_vectors = binary.left.kind() == Type::Vector && binary.right.kind() == Type::Vector;
    match binary.matching.as_ref().filter(|_| are_vectors) {
        Some(matching) => write_matching(object.field("matching"), matching),
        None => object.raw("matching", "null"),
    }
    object.text("op", binary.operator.as_str());
    object.expr("rhs", Some(&binary.right));
    object.text("type", "binaryExpr");
}

fn write_edge(object: &mut Object<'_>, edge: Edge) {
    object.raw("anchored", edge == Edge::Anchored);
    object.raw("smoothed", edge == Edge::Smoothed);
}

fn write_matchers(object: &mut Object<'_>, matchers: &[Matcher]) {
    let out = object.field("matchers");
    out.push('[');
    for (i, matcher) in matchers.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        let mut entry = Object::open(out);
        entry.text("name", &matcher.name);
        entry.text("type", matcher.op.operator());
        entry.text("value", &matcher.value);
        entry.close();
    }
    out.push(']');
}

fn write_selector(object: &mut Object<'_>, selector: &VectorSelector) {
    object.text("name", &selector.name);
    write_time(object, &selector.time);
}

fn write_time(object: &mut Object<'_>, time: &Time) {
    write_length(object, "offset", time.offset.as_ref());
    let word = match time.at {
        Some(At::Start) => Some("start"),
        Some(At::End) => Some("end"),
        Some(At::Ms(_)) | None => None,
    };
    match word {
        Some(word) => object.text("startOrEnd", word),
        None => object.raw("startOrEnd", "null"),
    }
    match time.at {
        Some(At::Ms(ms)) => object.raw("timestamp", ms),
        Some(At::Start | At::End) | None => object.raw("timestamp", "null"),
    }
}

fn write_length(object: &mut Object<'_>, name: &str, length: Option<&Length>) {
    let (ms, computed) = match length {
        None => (0, None),
        Some(Length::Ms(ms)) => (*ms, None),
        Some(Length::Computed(duration)) => (0, Some(duration)),
    };
    object.raw(name, ms);
    let out = object.field(&format!("{name}Expr"));
    match computed {
        Some(duration) => write_duration(out, Some(duration), false),
        None => out.push_str("null"),
    }
}

fn write_duration(out: &mut String, duration: Option<&Duration>, is_wrapped: bool) {
    let Some(duration) = duration else { return out.push_str("null") };
    if let Duration::Paren { inner, .. } = duration {
        return write_duration(out, Some(inner), true);
    }
    let mut object = Object::open(out);
    if let Duration::Number(number) = duration {
        object.raw("duration", number.is_duration);
        object.text("type", "numberLiteral");
        object.text("val", &format_float(number.value));
        return object.close();
    }
    let (operator, left, right): (_, Option<&Duration>, Option<&Duration>) = match duration {
        Duration::Step(_) => ("step", None, None),
        Duration::Range(_) => ("range", None, None),
        Duration::Unary { negative, operand, .. } => (if *negative { "-" } else { "+" }, None, Some(operand)),
        Duration::Binary { operator, left, right } => (operator.as_str(), Some(left), Some(right)),
        Duration::Choice { takes_max, left, right, .. } => {
            (if *takes_max { "max_of" } else { "min_of" }, Some(left), Some(right))
        }
        Duration::Number(_) | Duration::Paren { .. } => ("+", None, None),
    };
    write_duration(object.field("lhs"), left, false);
    object.text("op", operator);
    write_duration(object.field("rhs"), right, false);
    object.text("type", "durationExpr");
    object.raw("wrapped", is_wrapped);
    object.close();
}

fn write_matching(out: &mut String, matching: &Matching) {
    let mut object = Object::open(out);
    object.text(
        "card",
        match matching.card {
            Card::OneToOne => "one-to-one",
            Card::ManyToOne => "many-to-one",
            Card::OneToMany => "one-to-many",
            Card::ManyToMany => "many-to-many",
        },
    );
    let mut fills = Object::open(object.field("fillValues"));
    for (name, value) in [("lhs", matching.fill_left), ("rhs", matching.fill_right)] {
        match value {
            Some(value) => fills.raw(name, format_float(value)),
            None => fills.raw(name, "null"),
        }
    }
    fills.close();
    object.texts("include", matching.include.iter().map(|label| &**label));
    object.texts("labels", matching.labels.iter().map(|label| &**label));
    object.raw("on", matching.on);
    object.close();
}
