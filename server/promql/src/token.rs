//! What an expression's text consists of: operators, aggregations, keywords, marks, and how errors name them.

use silverback_model::named;

use crate::number::quote;
use crate::span::TextSpan;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
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
    /// The text isn't an expression from here on; the words are beside the tokens.
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

named! {
    /// A binary operator.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Operator {
        /// `+`
        Add = "+",
        /// `-`
        Sub = "-",
        /// `*`
        Mul = "*",
        /// `/`
        Div = "/",
        /// `%`
        Mod = "%",
        /// `^`
        Pow = "^",
        /// `atan2`
        Atan2 = "atan2",
        /// `==`
        Equal = "==",
        /// `!=`
        NotEqual = "!=",
        /// `<`
        Less = "<",
        /// `<=`
        LessOrEqual = "<=",
        /// `>`
        Greater = ">",
        /// `>=`
        GreaterOrEqual = ">=",
        /// `</`: cuts a histogram's observations above a value.
        TrimUpper = "</",
        /// `>/`: cuts a histogram's observations below a value.
        TrimLower = ">/",
        /// `and`
        And = "and",
        /// `or`
        Or = "or",
        /// `unless`
        Unless = "unless",
    }
}

named! {
    /// An aggregation operator.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub enum Aggregator {
        /// `sum`
        Sum = "sum",
        /// `avg`
        Avg = "avg",
        /// `count`
        Count = "count",
        /// `min`
        Min = "min",
        /// `max`
        Max = "max",
        /// `group`
        Group = "group",
        /// `stddev`
        Stddev = "stddev",
        /// `stdvar`
        Stdvar = "stdvar",
        /// `topk`
        Topk = "topk",
        /// `bottomk`
        Bottomk = "bottomk",
        /// `count_values`
        CountValues = "count_values",
        /// `quantile`
        Quantile = "quantile",
        /// `limitk`
        Limitk = "limitk",
        /// `limit_ratio`
        LimitRatio = "limit_ratio",
    }
}

named! {
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub(crate) enum Keyword {
        Offset = "offset",
        Smoothed = "smoothed",
        Anchored = "anchored",
        By = "by",
        Without = "without",
        On = "on",
        Ignoring = "ignoring",
        GroupLeft = "group_left",
        GroupRight = "group_right",
        Fill = "fill",
        FillLeft = "fill_left",
        FillRight = "fill_right",
        Bool = "bool",
    }
}

/// A token and its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Token {
    pub(crate) kind: TokenKind,
    pub(crate) span: TextSpan,
}

impl Operator {
    /// Whether it compares: it filters, or with `bool` gives 0 or 1.
    pub(crate) const fn is_comparison(self) -> bool {
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
    pub(crate) const fn is_set(self) -> bool {
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

    /// Whether it has a parameter before its expression.
    pub(crate) const fn takes_parameter(self) -> bool {
        self.is_choosing() || matches!(self, Self::CountValues | Self::Quantile)
    }

    pub(crate) const fn is_experimental(self) -> bool {
        matches!(self, Self::Limitk | Self::LimitRatio)
    }
}

/// What a word means, in whatever case it is written.
pub(crate) fn keyword(word: &str) -> Option<TokenKind> {
    const LONGEST: usize = 12;
    if word.len() > LONGEST {
        return None;
    }
    let word = word.to_ascii_lowercase();
    match word.as_str() {
        "start" | "end" | "step" | "range" | "max_of" | "min_of" => return Some(TokenKind::Preprocessor),
        "inf" | "nan" => return Some(TokenKind::Number),
        _other => {}
    }
    let operator = Operator::ALL.into_iter().find(|one| one.as_str() == word).map(TokenKind::Operator);
    let aggregator =
        || Aggregator::ALL.into_iter().find(|one| one.as_str() == word).map(TokenKind::Aggregator);
    let keyword = || Keyword::ALL.into_iter().find(|one| one.as_str() == word).map(TokenKind::Keyword);
    operator.or_else(aggregator).or_else(keyword)
}

/// How an unexpected token is named in an error.
pub(crate) fn describe(token: Token, text: &str) -> String {
    let word = &text[token.span.start as usize..token.span.end as usize];
    let shortened = || match word.char_indices().nth(10) {
        Some((end, _)) if word.len() > 10 => format!("{}...", quote(&word[..end])),
        Some(_) | None => quote(word),
    };
    match token.kind {
        TokenKind::End => "end of input".to_owned(),
        TokenKind::Operator(operator) => format!("<op:{}>", operator.as_str()),
        TokenKind::Mark(Mark::At) => "<op:@>".to_owned(),
        TokenKind::Mark(Mark::RegexEqual) => "<op:=~>".to_owned(),
        TokenKind::Mark(Mark::RegexNotEqual) => "<op:!~>".to_owned(),
        TokenKind::Aggregator(_) => format!("<aggr:{word}>"),
        TokenKind::Keyword(_) => format!("<{word}>"),
        TokenKind::Preprocessor | TokenKind::Mark(_) => shortened(),
        TokenKind::Identifier => format!("identifier {}", quote(word)),
        TokenKind::MetricIdentifier => format!("metric identifier {}", quote(word)),
        TokenKind::Text => format!("string {}", shortened()),
        TokenKind::Number => format!("number {}", shortened()),
        TokenKind::Duration => format!("duration {}", shortened()),
        TokenKind::Error => "error".to_owned(),
    }
}
