//! Translates an RE2 expression to Rust's syntax, where the two differ: a `{` that begins no repetition is
//! itself, `\Q…\E` quotes, a class holds no classes and no operators, `\d`, `\s`, `\w` and `\b` are
//! ASCII, there are octal escapes and no `(?x)`. It checks what could change its meaning on the way,
//! and that repetitions within repetitions stay within RE2's bound; whether the rest is well-formed,
//! Rust has. Groups capture only where that is asked for.

use regex_syntax::escape;

const UNCLOSED_GROUP: &str = "missing )";
const UNCLOSED_CLASS: &str = "missing ]";
const BAD_ESCAPE: &str = "invalid escape sequence";
const BAD_GROUP: &str = "invalid or unsupported group syntax";
const BAD_CLASS_NAME: &str = "no such character class";

/// The names in `[[:alpha:]]`.
const ASCII_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "word", "xdigit",
];
/// Copies of what is repeated, all repetitions around it multiplied, as in RE2.
const REPETITIONS_MAX: u32 = 1000;
const TOO_MANY_REPETITIONS: &str = "invalid repeat count";

/// An expression in Rust's syntax.
#[derive(Debug)]
pub(crate) struct Translated {
    /// The expression.
    pub text: String,
    /// Classes that are expensive to make: Unicode's, and any where case is ignored.
    pub(crate) wide_classes: usize,
}

/// The same expression for Rust, or what is wrong in words.
pub(crate) fn translate(expression: &str) -> Result<Translated, &'static str> {
    translate_groups(expression, GroupMode::Plain)
}

/// What groups do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupMode {
    /// They group.
    Plain,
    /// They capture too, by number and by name.
    Capturing,
}

/// As [`translate`], with groups that may capture.
pub(crate) fn translate_groups(expression: &str, groups: GroupMode) -> Result<Translated, &'static str> {
    let mut translation = Translation {
        groups,
        rest: expression,
        out: String::with_capacity(expression.len()),
        copies: Copies::default(),
        enclosing: Vec::new(),
        unicode_classes: 0,
        classes: 0,
        ignores_case: false,
        has_non_boundary: expression.contains("\\B"),
    };
    translation.whole()?;
    let Translation { out, unicode_classes, classes, ignores_case, .. } = translation;
    let wide_classes = if ignores_case { unicode_classes + classes } else { unicode_classes };
    Ok(Translated { text: out, wide_classes })
}

struct Translation<'a> {
    groups: GroupMode,
    rest: &'a str,
    out: String,
    /// Of the group that is read.
    copies: Copies,
    /// Of the groups around it.
    enclosing: Vec<Copies>,
    unicode_classes: usize,
    classes: usize,
    ignores_case: bool,
    has_non_boundary: bool,
}

/// How often what is repeated most in a group is there.
#[derive(Debug, Clone, Copy)]
struct Copies {
    /// Of all that was read before the last thing.
    before: u32,
    /// Of the last thing, which a repetition repeats.
    last: u32,
}

impl Default for Copies {
    fn default() -> Self {
        Self { before: 1, last: 1 }
    }
}

impl Copies {
    fn most(self) -> u32 {
        self.before.max(self.last)
    }

    /// Something was read, with so many copies in it.
    fn read(&mut self, copies: u32) {
        *self = Self { before: self.most(), last: copies };
    }

    /// What was read last is repeated.
    fn repeat(&mut self, times: u32) -> Result<(), &'static str> {
        // Without a copy nothing in it counts, as RE2 sees it.
        self.last = if times == 0 { 1 } else { self.last.saturating_mul(times) };
        if self.last > REPETITIONS_MAX { Err(TOO_MANY_REPETITIONS) } else { Ok(()) }
    }
}

impl<'a> Translation<'a> {
    fn whole(&mut self) -> Result<(), &'static str> {
        while let Some(c) = self.next() {
            match c {
                '(' => self.open_group()?,
                ')' => {
                    let of_group = self.copies.most();
                    self.copies = self.enclosing.pop().ok_or("unexpected )")?;
                    self.copies.read(of_group);
                    self.out.push(')');
                }
                '{' => self.brace()?,
                '*' | '+' | '?' => self.out.push(c),
                '[' => {
                    self.copies.read(1);
                    self.class()?;
                }
                '\\' => {
                    self.copies.read(1);
                    self.escape()?;
                }
                '.' => {
                    self.copies.read(1);
                    self.any_character();
                }
                plain => {
                    self.copies.read(1);
                    self.out.push(plain);
                }
            }
        }
        if self.enclosing.is_empty() { Ok(()) } else { Err(UNCLOSED_GROUP) }
    }

    fn open_group(&mut self) -> Result<(), &'static str> {
        if self.group()? == Group::Opened {
            self.enclosing.push(std::mem::take(&mut self.copies));
        }
        Ok(())
    }

    /// A `.`. Texts are valid UTF-8, so any number of characters are any number of bytes: that takes one
    /// state of an automaton instead of ten. Not where a `\B` may hold between the bytes of a character.
    fn any_character(&mut self) {
        self.classes += 1;
        // What captures has to capture whole characters.
        let is_plain = self.groups == GroupMode::Plain;
        let as_bytes = is_plain && self.rest.starts_with('*') && !self.has_non_boundary;
        self.out.push_str(if as_bytes { "(?-u:.)" } else { "." });
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = &self.rest[c.len_utf8()..];
        Some(c)
    }

    fn take(&mut self, prefix: &str) -> bool {
        let rest = self.rest.strip_prefix(prefix);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    /// Up to `end`, which is taken too.
    fn take_until(&mut self, end: &str) -> Option<&'a str> {
        let (taken, rest) = self.rest.split_once(end)?;
        self.rest = rest;
        Some(taken)
    }

    fn put_literal(&mut self, c: char) {
        self.out.push_str(&escape(c.encode_utf8(&mut [0; 4])));
    }

    /// After a `(`.
    fn group(&mut self) -> Result<Group, &'static str> {
        let opening = match self.groups {
            GroupMode::Plain => "(?:",
            GroupMode::Capturing => "(",
        };
        if !self.take("?") {
            self.out.push_str(opening);
            return Ok(Group::Opened);
        }
        if self.take("P<") || self.take("<") {
            let name = self.take_until(">").ok_or(BAD_GROUP)?;
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return Err(BAD_GROUP);
            }
            match self.groups {
                GroupMode::Plain => self.out.push_str(opening),
                GroupMode::Capturing => self.out.extend(["(?P<", name, ">"]),
            }
            return Ok(Group::Opened);
        }
        let flags = self.rest.find([':', ')']).map(|end| self.rest.split_at(end));
        let (flags, rest) = flags.ok_or(UNCLOSED_GROUP)?;
        if !flags.bytes().all(|flag| b"imsU-".contains(&flag)) {
            return Err(BAD_GROUP);
        }
        self.rest = rest;
        self.ignores_case |= flags.contains('i');
        if self.take(":") {
            self.out.extend(["(?", flags, ":"]);
            return Ok(Group::Opened);
        }
        self.take(")");
        // Rust has no `(?)`, which does nothing.
        if !flags.is_empty() {
            self.out.extend(["(?", flags, ")"]);
        }
        Ok(Group::FlagsAlone)
    }

    /// After a `{`: a repetition, or the character.
    fn brace(&mut self) -> Result<(), &'static str> {
        let inner = self.rest.split_once('}').map(|(inner, _)| inner);
        let Some((inner, counts)) = inner.and_then(|inner| Some((inner, repetition(inner)?))) else {
            self.copies.read(1);
            self.out.push_str("\\{");
            return Ok(());
        };
        if counts.iter().flatten().any(|count| *count > REPETITIONS_MAX) {
            return Err(TOO_MANY_REPETITIONS);
        }
        let [least, most] = counts;
        self.copies.repeat(most.or(least).unwrap_or(1))?;
        self.take(inner);
        self.out.push('{');
        self.out.push_str(inner);
        Ok(())
    }

    /// After a `\` that is in no class.
    fn escape(&mut self) -> Result<(), &'static str> {
        let c = self.next().ok_or("trailing \\")?;
        match c {
            'Q' => {
                let quoted = self.take_until("\\E").unwrap_or_else(|| std::mem::take(&mut self.rest));
                self.out.push_str(&escape(quoted));
            }
            'A' | 'z' => self.out.extend(['\\', c]),
            'b' => self.out.push_str(r"(?-u:\b)"),
            'B' => self.out.push_str(r"(?-u:\B)"),
            _other => {
                if !self.class_escape(c)? {
                    let literal = self.character(c)?;
                    self.put_literal(literal);
                }
            }
        }
        Ok(())
    }

    /// After a `\` and `c`: a class of characters, in brackets or not. False if it isn't one.
    fn class_escape(&mut self, c: char) -> Result<bool, &'static str> {
        let class = match c {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => r"[\t\n\x0c\r ]",
            'S' => r"[^\t\n\x0c\r ]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            'p' | 'P' => {
                self.unicode_class(c)?;
                ""
            }
            _other => return Ok(false),
        };
        self.classes += 1;
        self.out.push_str(class);
        Ok(true)
    }

    /// After `\p` or `\P`: `L`, `{Greek}` or `{^Greek}`.
    fn unicode_class(&mut self, p: char) -> Result<(), &'static str> {
        let mut letter = [0; 4];
        let name = if self.take("{") {
            self.take_until("}").ok_or(BAD_CLASS_NAME)?
        } else {
            self.next().ok_or(BAD_CLASS_NAME)?.encode_utf8(&mut letter)
        };
        let (name, p) = match (name.strip_prefix('^'), p) {
            (None, p) => (name, p),
            (Some(name), 'p') => (name, 'P'),
            (Some(name), _negated) => (name, 'p'),
        };
        if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return Err(BAD_CLASS_NAME);
        }
        self.unicode_classes += 1;
        self.out.extend(['\\', p, '{']);
        self.out.push_str(name);
        self.out.push('}');
        Ok(())
    }

    /// After a `\` and `c`: the character that they stand for.
    fn character(&mut self, c: char) -> Result<char, &'static str> {
        Ok(match c {
            'a' => '\x07',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => return self.hexadecimal(),
            '0' => self.octal(0),
            // A digit alone would be a back-reference.
            '1'..='7' if self.rest.starts_with(is_octal) => self.octal(c as u32 - '0' as u32),
            plain if plain.is_ascii() && !plain.is_ascii_alphanumeric() => plain,
            _other => return Err(BAD_ESCAPE),
        })
    }

    fn octal(&mut self, first: u32) -> char {
        let mut code = first;
        for _digit in 0..2 {
            let Some(digit) = self.rest.chars().next().filter(|c| is_octal(*c)) else { break };
            self.rest = &self.rest[1..];
            code = code * 8 + (digit as u32 - '0' as u32);
        }
        char::from_u32(code).expect("three octal digits are a character")
    }

    fn hexadecimal(&mut self) -> Result<char, &'static str> {
        let digits = if self.take("{") {
            self.take_until("}")
        } else {
            let digits = self.rest.get(..2);
            self.rest = digits.map_or(self.rest, |_| &self.rest[2..]);
            digits
        };
        let digits = digits.filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        code.and_then(char::from_u32).ok_or(BAD_ESCAPE)
    }

    /// After a `[`.
    fn class(&mut self) -> Result<(), &'static str> {
        self.classes += 1;
        self.out.push('[');
        if self.take("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        while is_first || !self.take("]") {
            is_first = false;
            self.class_item()?;
        }
        self.out.push(']');
        Ok(())
    }

    /// A class by its name, a character or a range.
    fn class_item(&mut self) -> Result<(), &'static str> {
        if let Some(named) = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]")) {
            return self.ascii_class(named);
        }
        let mut after = self.rest.chars();
        if let (Some('\\'), Some(c)) = (after.next(), after.next()) {
            let at = std::mem::replace(&mut self.rest, after.as_str());
            if self.class_escape(c)? {
                return Ok(());
            }
            self.rest = at;
        }
        let first = self.class_character()?;
        self.put_literal(first);
        if self.rest.starts_with('-') && !self.rest.starts_with("-]") && self.rest.len() > 1 {
            self.take("-");
            self.out.push('-');
            let last = self.class_character()?;
            self.put_literal(last);
        }
        Ok(())
    }

    fn ascii_class(&mut self, (name, rest): (&'a str, &'a str)) -> Result<(), &'static str> {
        if !ASCII_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(BAD_CLASS_NAME);
        }
        self.rest = rest;
        self.out.push_str("[:");
        self.out.push_str(name);
        self.out.push_str(":]");
        Ok(())
    }

    fn class_character(&mut self) -> Result<char, &'static str> {
        match self.next().ok_or(UNCLOSED_CLASS)? {
            '\\' => {
                let c = self.next().ok_or(UNCLOSED_CLASS)?;
                self.character(c)
            }
            plain => Ok(plain),
        }
    }
}

/// What a `(` was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Group {
    /// It is to be closed.
    Opened,
    /// `(?i)`
    FlagsAlone,
}

fn is_octal(c: char) -> bool {
    ('0'..='7').contains(&c)
}

/// `2`, `2,` or `2,3`, each number without a zero ahead of it.
fn repetition(inner: &str) -> Option<[Option<u32>; 2]> {
    let count = |digits: &str| {
        let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
        let leads_with_zero = digits.len() > 1 && digits.starts_with('0');
        (is_number && !leads_with_zero).then(|| digits.parse().unwrap_or(u32::MAX))
    };
    match inner.split_once(',') {
        None => Some([Some(count(inner)?), None]),
        Some((least, "")) => Some([Some(count(least)?), None]),
        Some((least, most)) => Some([Some(count(least)?), Some(count(most)?)]),
    }
}
