//! An expression's tokens, each with its place. Knows what is inside braces and brackets, where other
//! characters mean something; no grammar.
//!
//! Each byte is looked at a bounded number of times.

use crate::number::{quote, quote_char};
use crate::span::TextSpan;
use crate::token::{Keyword, Mark, Operator, Token, TokenKind, keyword};

/// The words that may be within brackets.
const DURATION_WORDS: [&str; 4] = ["step", "range", "max_of", "min_of"];

/// The tokens of a text, `End` or `Error` last, and the words of the error.
pub(crate) fn tokens(text: &str) -> (Vec<Token>, Option<String>) {
    let mut lexer = Lexer { text, at: 0, start: 0, tokens: Vec::new(), parens: 0, brackets: Brackets::None };
    let error = lexer.statements().err();
    let kind = if error.is_some() { TokenKind::Error } else { TokenKind::End };
    let start = if error.is_some() { lexer.start } else { lexer.at };
    lexer.tokens.push(Token { kind, span: TextSpan::new(start, text.len()) });
    (lexer.tokens, error)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Brackets {
    None,
    /// Within brackets, before the colon.
    Open {
        has_duration: bool,
    },
    /// After the colon.
    Colon,
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    start: usize,
    tokens: Vec<Token>,
    parens: usize,
    brackets: Brackets,
}

impl<'a> Lexer<'a> {
    fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        Some(c)
    }

    fn accept(&mut self, set: &str) -> bool {
        let is_there = self.peek().is_some_and(|c| set.contains(c));
        if is_there {
            self.at += 1;
        }
        is_there
    }

    fn emit(&mut self, kind: TokenKind) {
        self.tokens.push(Token { kind, span: TextSpan::new(self.start, self.at) });
        self.start = self.at;
    }

    fn word(&self) -> &'a str {
        &self.text[self.start..self.at]
    }

    fn skip_space(&mut self) {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
        self.start = self.at;
    }

    fn skip_space_and_comments(&mut self) {
        self.skip_space();
        while self.peek() == Some('#') {
            self.take_while(|c| !matches!(c, '\n' | '\r'));
            self.skip_space();
        }
    }

    fn statements(&mut self) -> Result<(), String> {
        loop {
            self.skip_space_and_comments();
            let Some(c) = self.next() else { return self.end() };
            self.statement(c)?;
        }
    }

    fn end(&self) -> Result<(), String> {
        if self.parens > 0 {
            return Err("unclosed left parenthesis".to_owned());
        }
        match self.brackets {
            Brackets::None => Ok(()),
            Brackets::Open { .. } | Brackets::Colon => Err("unclosed left bracket".to_owned()),
        }
    }

    fn statement(&mut self, c: char) -> Result<(), String> {
        match c {
            ',' => self.emit(TokenKind::Mark(Mark::Comma)),
            '*' => self.emit(TokenKind::Operator(Operator::Mul)),
            '/' => self.emit(TokenKind::Operator(Operator::Div)),
            '%' => self.emit(TokenKind::Operator(Operator::Mod)),
            '+' => self.emit(TokenKind::Operator(Operator::Add)),
            '-' => self.emit(TokenKind::Operator(Operator::Sub)),
            '^' => self.emit(TokenKind::Operator(Operator::Pow)),
            '@' => self.emit(TokenKind::Mark(Mark::At)),
            '=' => self.equal()?,
            '!' => self.not_equal()?,
            '<' | '>' => self.compare(c),
            '0'..='9' => self.number_or_duration()?,
            '.' if self.peek().is_some_and(|c| c.is_ascii_digit()) => self.number_or_duration()?,
            '"' | '\'' | '`' => self.string(c)?,
            c if is_alpha(c) || c == ':' => self.letter(c)?,
            '(' => {
                self.parens += 1;
                self.emit(TokenKind::Mark(Mark::LeftParen));
            }
            ')' => {
                let Some(closed) = self.parens.checked_sub(1) else {
                    self.start = self.at;
                    return Err(unexpected("right parenthesis", c));
                };
                self.parens = closed;
                self.emit(TokenKind::Mark(Mark::RightParen));
            }
            '{' => {
                self.emit(TokenKind::Mark(Mark::LeftBrace));
                self.braces()?;
            }
            '[' => self.left_bracket(c)?,
            ']' => {
                if self.brackets == Brackets::None {
                    return Err(unexpected("right bracket", c));
                }
                self.brackets = Brackets::None;
                self.emit(TokenKind::Mark(Mark::RightBracket));
            }
            other => return Err(format!("unexpected character: {}", quote_char(other))),
        }
        Ok(())
    }

    fn equal(&mut self) -> Result<(), String> {
        match self.peek() {
            Some('=') => {
                self.at += 1;
                self.emit(TokenKind::Operator(Operator::Equal));
            }
            Some('~') => return Err("unexpected character after '=': '~'".to_owned()),
            Some(_) | None => self.emit(TokenKind::Mark(Mark::Equal)),
        }
        Ok(())
    }

    fn not_equal(&mut self) -> Result<(), String> {
        if !self.accept("=") {
            return Err(format!("unexpected character after '!': {}", quoted(self.peek())));
        }
        self.emit(TokenKind::Operator(Operator::NotEqual));
        Ok(())
    }

    fn compare(&mut self, c: char) {
        let (plain, or_equal, trim) = match c {
            '<' => (Operator::Less, Operator::LessOrEqual, Operator::TrimUpper),
            _greater => (Operator::Greater, Operator::GreaterOrEqual, Operator::TrimLower),
        };
        let operator = if self.accept("=") {
            or_equal
        } else if self.accept("/") {
            trim
        } else {
            plain
        };
        self.emit(TokenKind::Operator(operator));
    }

    fn letter(&mut self, c: char) -> Result<(), String> {
        match self.brackets {
            Brackets::None => self.keyword_or_identifier(),
            Brackets::Open { .. } if c == ':' => {
                self.emit(TokenKind::Mark(Mark::Colon));
                self.brackets = Brackets::Colon;
            }
            Brackets::Colon if c == ':' => return Err(unexpected("colon", c)),
            Brackets::Open { .. } | Brackets::Colon => {
                self.take_while(is_alpha);
                if !DURATION_WORDS.contains(&self.word().to_ascii_lowercase().as_str()) {
                    return Err(format!("unexpected character: {}, expected ':'", quote_char(c)));
                }
                self.emit(TokenKind::Preprocessor);
            }
        }
        Ok(())
    }

    fn keyword_or_identifier(&mut self) {
        self.take_while(|c| is_alphanumeric(c) || c == ':');
        let word = self.word();
        let kind = match keyword(word) {
            // These are names like others unless a parenthesis follows.
            Some(TokenKind::Keyword(Keyword::Fill | Keyword::FillLeft | Keyword::FillRight))
                if !self.text[self.at..].trim_start_matches(is_space).starts_with('(') =>
            {
                TokenKind::Identifier
            }
            Some(kind) => kind,
            None if word.contains(':') => TokenKind::MetricIdentifier,
            None => TokenKind::Identifier,
        };
        self.emit(kind);
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) {
        let rest = &self.text[self.at..];
        self.at += rest.find(|c| !belongs(c)).unwrap_or(rest.len());
    }

    fn left_bracket(&mut self, c: char) -> Result<(), String> {
        if self.brackets != Brackets::None {
            return Err(unexpected("left bracket", c));
        }
        self.emit(TokenKind::Mark(Mark::LeftBracket));
        self.brackets = Brackets::Open { has_duration: false };
        self.duration_expression()
    }

    /// From the bracket to its first number, which other statements go on from.
    fn duration_expression(&mut self) -> Result<(), String> {
        loop {
            self.skip_space();
            let Some(c) = self.next() else {
                return Err("unexpected end of input in duration expression".to_owned());
            };
            match c {
                ']' => {
                    self.brackets = Brackets::None;
                    self.emit(TokenKind::Mark(Mark::RightBracket));
                    return Ok(());
                }
                ':' => {
                    let Brackets::Open { has_duration: true } = self.brackets else {
                        let words = "unexpected colon before duration in duration expression";
                        self.start = self.at;
                        return Err(words.to_owned());
                    };
                    self.brackets = Brackets::Colon;
                    self.emit(TokenKind::Mark(Mark::Colon));
                }
                '(' | ')' | '+' | '-' | '*' | '/' | '%' | '^' | ',' => self.statement(c)?,
                c if matches!(c.to_ascii_lowercase(), 's' | 'r' | 'm') => {
                    self.take_while(is_alpha);
                    if !DURATION_WORDS.contains(&self.word().to_ascii_lowercase().as_str()) {
                        return Err(format!(
                            "unexpected character in duration expression: {}",
                            quote_char(c)
                        ));
                    }
                    self.emit(TokenKind::Preprocessor);
                    self.brackets = Brackets::Open { has_duration: true };
                }
                c if c.is_ascii_digit() || (c == '.' && self.peek().is_some_and(|c| c.is_ascii_digit())) => {
                    self.brackets = Brackets::Open { has_duration: true };
                    return self.number_or_duration();
                }
                other => {
                    return Err(format!(
                        "unexpected character in duration expression: {}",
                        quote_char(other)
                    ));
                }
            }
        }
    }

    /// The first character is taken already.
    fn number_or_duration(&mut self) -> Result<(), String> {
        self.at = self.start;
        if self.scan_number() {
            self.emit(TokenKind::Number);
            return Ok(());
        }
        if self.scan_duration() {
            self.emit(TokenKind::Duration);
            return Ok(());
        }
        Err(format!("bad number or duration syntax: {}", quote(self.word())))
    }

    fn scan_number(&mut self) -> bool {
        let mut digits = "0123456789";
        let initial = self.at;
        if self.accept("0") && self.accept("xX") {
            self.accept("_");
            digits = "0123456789abcdefABCDEF";
        }
        let is_hexadecimal = digits.len() > 10;
        self.accept(".");
        self.accept(digits);
        let (mut dot, mut exponent) = (false, false);
        while let Some(c) = self.peek() {
            if c == '.' {
                self.at += 1;
                if dot || is_hexadecimal || self.accept("_.") {
                    return false;
                }
                dot = true;
            } else if matches!(c, 'e' | 'E') && !is_hexadecimal {
                self.at += 1;
                if exponent {
                    return false;
                }
                exponent = true;
                self.accept("+-");
                if self.accept("._eE") || self.peek().is_none() {
                    return false;
                }
            } else if c == '_' {
                self.at += 1;
                if self.accept("._eE") || self.peek().is_none() {
                    return false;
                }
            } else if digits.contains(c) {
                self.at += 1;
            } else {
                break;
            }
        }
        self.at > initial && !self.peek().is_some_and(is_alphanumeric)
    }

    /// Goes on where a malformed number ended.
    fn scan_duration(&mut self) -> bool {
        if !self.accept("smhdwy") {
            return false;
        }
        self.accept("s");
        while self.accept("0123456789") {
            while self.accept("0123456789") {}
            if !self.accept("smhdw") {
                return false;
            }
            self.accept("s");
        }
        if self.peek().is_some_and(is_alphanumeric) {
            self.next();
            return false;
        }
        true
    }

    /// The quote is taken already.
    fn string(&mut self, open: char) -> Result<(), String> {
        loop {
            match self.next() {
                None if open == '`' => return Err("unterminated raw string".to_owned()),
                None => return Err("unterminated quoted string".to_owned()),
                Some('\n') if open != '`' => return Err("unterminated quoted string".to_owned()),
                Some('\\') if open != '`' => self.escape(open)?,
                Some(c) if c == open => break,
                Some(_) => {}
            }
        }
        self.emit(TokenKind::Text);
        Ok(())
    }

    fn escape(&mut self, open: char) -> Result<(), String> {
        let ended = || "escape sequence not terminated".to_owned();
        let first = self.next().ok_or_else(ended)?;
        let (digits, base, max) = match first {
            'a' | 'b' | 'f' | 'n' | 'r' | 't' | 'v' | '\\' => return Ok(()),
            c if c == open => return Ok(()),
            '0'..='7' => {
                self.at -= 1;
                (3, 8, 255)
            }
            'x' => (2, 16, 255),
            'u' => (4, 16, 0x10_ffff),
            'U' => (8, 16, 0x10_ffff),
            other => return Err(format!("unknown escape sequence {}", code_point(other))),
        };
        let mut value = 0_u64;
        for _ in 0..digits {
            let c = self.next().ok_or_else(ended)?;
            let digit = c.to_digit(base);
            let digit =
                digit.ok_or_else(|| format!("illegal character {} in escape sequence", code_point(c)))?;
            value = value * u64::from(base) + u64::from(digit);
        }
        if value > max || (0xd800..0xe000).contains(&value) {
            return Err("escape sequence is an invalid Unicode code point".to_owned());
        }
        Ok(())
    }

    fn braces(&mut self) -> Result<(), String> {
        loop {
            self.skip_space_and_comments();
            let Some(c) = self.next() else {
                return Err("unexpected end of input inside braces".to_owned());
            };
            match c {
                c if is_alpha(c) => {
                    self.take_while(is_alphanumeric);
                    self.emit(TokenKind::Identifier);
                }
                ',' => self.emit(TokenKind::Mark(Mark::Comma)),
                '"' | '\'' | '`' => self.string(c)?,
                '=' if self.accept("~") => self.emit(TokenKind::Mark(Mark::RegexEqual)),
                '=' => self.emit(TokenKind::Mark(Mark::Equal)),
                '!' if self.accept("~") => self.emit(TokenKind::Mark(Mark::RegexNotEqual)),
                '!' if self.accept("=") => self.emit(TokenKind::Operator(Operator::NotEqual)),
                '!' => {
                    return Err(format!(
                        "unexpected character after '!' inside braces: {}",
                        quoted(self.peek())
                    ));
                }
                '{' => return Err("unexpected left brace '{'".to_owned()),
                '}' => {
                    self.emit(TokenKind::Mark(Mark::RightBrace));
                    return Ok(());
                }
                other => {
                    return Err(format!("unexpected character inside braces: {}", quote_char(other)));
                }
            }
        }
    }
}

fn unexpected(what: &str, c: char) -> String {
    format!("unexpected {what} {}", quote_char(c))
}

fn quoted(c: Option<char>) -> String {
    // What Go says where the text has ended.
    c.map_or_else(|| "'\u{fffd}'".to_owned(), quote_char)
}

fn code_point(c: char) -> String {
    format!("U+{:04X} '{c}'", u32::from(c))
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

fn is_alpha(c: char) -> bool {
    c == '_' || c.is_ascii_alphabetic()
}

fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}
