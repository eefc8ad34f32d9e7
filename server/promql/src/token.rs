//! What an expression's text consists of: operators, aggregations, keywords, marks, and how errors name them.

use crate::number::quote;
use crate::span::Span;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Punctuation, which stands for itself.
    Mark(Mark),
    Operator(Operator),
    Aggregator(Aggregator),
    Keyword(Keyword),
    /// `start`, `end`, `step`, `range`, `min_of`, `max_of`.
    Preprocessor,
    Identifier,
    /// An identifier with a colon.
    MetricIdentifier,
    Text,
    Number,
    Duration,
    End,
    /// The text is no expression from here on; the words are beside the tokens.
    Error,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    LeftParen,
    RightParen,
    LeftBrace,
    RightBrace,
    LeftBracket,
    RightBracket,
    Comma,
    Colon,
    Equal,
    RegexEqual,
    RegexNotEqual,
    At,
}

/// A binary operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Operator {
    /// `+`
    Add,
    /// `-`
    Sub,
    /// `*`
    Mul,
    /// `/`
    Div,
    /// `%`
    Mod,
    /// `^`
    Pow,
    /// `atan2`
    Atan2,
    /// `==`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `</`: cuts a histogram's observations above a value.
    TrimUpper,
    /// `>/`: cuts a histogram's observations below a value.
    TrimLower,
    /// `and`
    And,
    /// `or`
    Or,
    /// `unless`
    Unless,
}

/// An aggregation operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Aggregator {
    /// `sum`
    Sum,
    /// `avg`
    Avg,
    /// `count`
    Count,
    /// `min`
    Min,
    /// `max`
    Max,
    /// `group`
    Group,
    /// `stddev`
    Stddev,
    /// `stdvar`
    Stdvar,
    /// `topk`
    Topk,
    /// `bottomk`
    Bottomk,
    /// `count_values`
    CountValues,
    /// `quantile`
    Quantile,
    /// `limitk`
    Limitk,
    /// `limit_ratio`
    LimitRatio,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keyword {
    Offset,
    Smoothed,
    Anchored,
    By,
    Without,
    On,
    Ignoring,
    GroupLeft,
    GroupRight,
    Fill,
    FillLeft,
    FillRight,
    Bool,
}

/// A token and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) span: Span,
}

impl Operator {
    /// As PromQL writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Mod => "%",
            Self::Pow => "^",
            Self::Atan2 => "atan2",
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::TrimUpper => "</",
            Self::TrimLower => ">/",
            Self::And => "and",
            Self::Or => "or",
            Self::Unless => "unless",
        }
    }

    /// Whether it compares: it filters, or with `bool` tells 0 or 1.
    pub const fn is_comparison(self) -> bool {
        matches!(
            self,
            Self::Equal
                | Self::NotEqual
                | Self::Less
                | Self::LessOrEqual
                | Self::Greater
                | Self::GreaterOrEqual
        )
    }

    /// Whether it works on sets of series, whatever their values.
    pub const fn is_set(self) -> bool {
        matches!(self, Self::And | Self::Or | Self::Unless)
    }

    /// Higher binds more.
    pub(crate) const fn precedence(self) -> u8 {
        match self {
            Self::Or => 1,
            Self::And | Self::Unless => 2,
            Self::Equal
            | Self::NotEqual
            | Self::Less
            | Self::LessOrEqual
            | Self::Greater
            | Self::GreaterOrEqual
            | Self::TrimUpper
            | Self::TrimLower => 3,
            Self::Add | Self::Sub => 4,
            Self::Mul | Self::Div | Self::Mod | Self::Atan2 => 5,
            Self::Pow => 6,
        }
    }
}

impl Aggregator {
    /// Whether it gives some of the series as they are.
    pub(crate) const fn is_choosing(self) -> bool {
        matches!(self, Self::Topk | Self::Bottomk | Self::Limitk | Self::LimitRatio)
    }

    /// As PromQL writes it.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Avg => "avg",
            Self::Count => "count",
            Self::Min => "min",
            Self::Max => "max",
            Self::Group => "group",
            Self::Stddev => "stddev",
            Self::Stdvar => "stdvar",
            Self::Topk => "topk",
            Self::Bottomk => "bottomk",
            Self::CountValues => "count_values",
            Self::Quantile => "quantile",
            Self::Limitk => "limitk",
            Self::LimitRatio => "limit_ratio",
        }
    }

    /// Whether it has a parameter before its expression.
    pub const fn takes_parameter(self) -> bool {
        match self {
            Self::Topk
            | Self::Bottomk
            | Self::CountValues
            | Self::Quantile
            | Self::Limitk
            | Self::LimitRatio => true,
            Self::Sum
            | Self::Avg
            | Self::Count
            | Self::Min
            | Self::Max
            | Self::Group
            | Self::Stddev
            | Self::Stdvar => false,
        }
    }

    pub(crate) const fn is_experimental(self) -> bool {
        matches!(self, Self::Limitk | Self::LimitRatio)
    }
}

/// What a word means, in whatever case it is written.
pub(crate) fn keyword(word: &str) -> Option<Kind> {
    const LONGEST: usize = 12;
    if word.len() > LONGEST {
        return None;
    }
    Some(match word.to_ascii_lowercase().as_str() {
        "and" => Kind::Operator(Operator::And),
        "or" => Kind::Operator(Operator::Or),
        "unless" => Kind::Operator(Operator::Unless),
        "atan2" => Kind::Operator(Operator::Atan2),
        "sum" => Kind::Aggregator(Aggregator::Sum),
        "avg" => Kind::Aggregator(Aggregator::Avg),
        "count" => Kind::Aggregator(Aggregator::Count),
        "min" => Kind::Aggregator(Aggregator::Min),
        "max" => Kind::Aggregator(Aggregator::Max),
        "group" => Kind::Aggregator(Aggregator::Group),
        "stddev" => Kind::Aggregator(Aggregator::Stddev),
        "stdvar" => Kind::Aggregator(Aggregator::Stdvar),
        "topk" => Kind::Aggregator(Aggregator::Topk),
        "bottomk" => Kind::Aggregator(Aggregator::Bottomk),
        "count_values" => Kind::Aggregator(Aggregator::CountValues),
        "quantile" => Kind::Aggregator(Aggregator::Quantile),
        "limitk" => Kind::Aggregator(Aggregator::Limitk),
        "limit_ratio" => Kind::Aggregator(Aggregator::LimitRatio),
        "offset" => Kind::Keyword(Keyword::Offset),
        "smoothed" => Kind::Keyword(Keyword::Smoothed),
        "anchored" => Kind::Keyword(Keyword::Anchored),
        "by" => Kind::Keyword(Keyword::By),
        "without" => Kind::Keyword(Keyword::Without),
        "on" => Kind::Keyword(Keyword::On),
        "ignoring" => Kind::Keyword(Keyword::Ignoring),
        "group_left" => Kind::Keyword(Keyword::GroupLeft),
        "group_right" => Kind::Keyword(Keyword::GroupRight),
        "fill" => Kind::Keyword(Keyword::Fill),
        "fill_left" => Kind::Keyword(Keyword::FillLeft),
        "fill_right" => Kind::Keyword(Keyword::FillRight),
        "bool" => Kind::Keyword(Keyword::Bool),
        "start" | "end" | "step" | "range" | "max_of" | "min_of" => Kind::Preprocessor,
        "inf" | "nan" => Kind::Number,
        _other => return None,
    })
}

/// How an unexpected token is named in an error.
pub(crate) fn describe(token: Token, text: &str) -> String {
    let word = &text[token.span.start as usize..token.span.end as usize];
    let shortened = || match word.char_indices().nth(10) {
        Some((end, _)) if word.len() > 10 => format!("{}...", quote(&word[..end])),
        Some(_) | None => quote(word),
    };
    match token.kind {
        Kind::End => "end of input".to_owned(),
        Kind::Operator(operator) => format!("<op:{}>", operator.text()),
        Kind::Mark(Mark::At) => "<op:@>".to_owned(),
        Kind::Mark(Mark::RegexEqual) => "<op:=~>".to_owned(),
        Kind::Mark(Mark::RegexNotEqual) => "<op:!~>".to_owned(),
        Kind::Aggregator(_) => format!("<aggr:{word}>"),
        Kind::Keyword(_) => format!("<{word}>"),
        Kind::Preprocessor | Kind::Mark(_) => shortened(),
        Kind::Identifier => format!("identifier {}", quote(word)),
        Kind::MetricIdentifier => format!("metric identifier {}", quote(word)),
        Kind::Text => format!("string {}", shortened()),
        Kind::Number => format!("number {}", shortened()),
        Kind::Duration => format!("duration {}", shortened()),
        Kind::Error => "error".to_owned(),
    }
}
