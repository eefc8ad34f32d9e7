//! Generated sections of a document, each between a pair of comments, and whether they are older than the code.
//! It knows nothing of the words around them.
//!
//! ```text
//! <!-- report:begin NAME -->
//! <!-- report:measured commit=COMMIT code=HASH -->
//!
//! **Measured on COMMIT; the code has changed since.**        only where it has
//!
//! what was measured
//!
//! <!-- report:end NAME -->
//! ```

use std::collections::BTreeMap;

use super::commit::Code;

const MARK_START: &str = "**Measured on ";
const MARK_END: &str = "; the code has changed since.**";

/// One section, as it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Section {
    /// Its name in the comments.
    pub name: String,
    /// What was measured, in Markdown.
    pub body: String,
}

/// Why a document can't be written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocumentError {
    /// It has no place for a section.
    #[error("no document has the lines `{}` and `{}`", begin(.0), end(.0))]
    NoPlace(String),
    /// A section isn't ended, or ends where none began.
    #[error("line {line}: `{found}` out of place")]
    OutOfPlace {
        /// Counted from 1.
        line: usize,
        /// What is there.
        found: String,
    },
}

fn begin(name: &str) -> String {
    format!("<!-- report:begin {name} -->")
}

fn end(name: &str) -> String {
    format!("<!-- report:end {name} -->")
}

fn measured(commit: &str, hash: &str) -> String {
    format!("<!-- report:measured commit={commit} code={hash} -->")
}

/// The name in a comment of this kind.
fn named<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    line.strip_prefix("<!-- report:")?.strip_prefix(kind)?.strip_prefix(' ')?.strip_suffix(" -->")
}

/// A document's sections and what is around them, in order.
enum Part<'a> {
    /// A line that nobody generated.
    Around(&'a str),
    /// A section: its name and its lines.
    Generated(&'a str, Vec<&'a str>),
}

fn parts(text: &str) -> Result<Vec<Part<'_>>, DocumentError> {
    let (mut parts, mut open) = (Vec::new(), None::<(usize, &str, Vec<&str>)>);
    for (place, line) in text.split_inclusive('\n').enumerate() {
        let (bare, place) = (line.trim_end(), place + 1);
        let out_of_place = || DocumentError::OutOfPlace { line: place, found: bare.to_owned() };
        match (named(bare, "begin"), named(bare, "end"), open.take()) {
            (Some(name), _, None) => open = Some((place, name, Vec::new())),
            (_, Some(name), Some((_, begun, lines))) if begun == name => {
                parts.push(Part::Generated(name, lines))
            }
            (None, None, None) => parts.push(Part::Around(line)),
            (None, None, Some((at, name, mut lines))) => {
                lines.push(line);
                open = Some((at, name, lines));
            }
            _ => return Err(out_of_place()),
        }
    }
    match open {
        None => Ok(parts),
        Some((line, name, _)) => Err(DocumentError::OutOfPlace { line, found: begin(name) }),
    }
}

/// The document with every section's lines as `change` gives them, the comments around them left out.
fn rewritten(text: &str, mut change: impl FnMut(&str, Vec<&str>) -> String) -> Result<String, DocumentError> {
    let mut all = String::with_capacity(text.len());
    for part in parts(text)? {
        match part {
            Part::Around(line) => all += line,
            Part::Generated(name, lines) => {
                all += &format!("{}\n{}{}\n", begin(name), change(name, lines), end(name));
            }
        }
    }
    Ok(all)
}

/// The names of a document's sections.
pub fn names(text: &str) -> Result<Vec<String>, DocumentError> {
    let name = |part: Part<'_>| match part {
        Part::Around(_) => None,
        Part::Generated(name, _) => Some(name.to_owned()),
    };
    Ok(parts(text)?.into_iter().filter_map(name).collect())
}

/// The document with these sections rewritten, as measured on this code. Sections that it has no place for are
/// another document's.
pub fn spliced(text: &str, sections: &[Section], code: &Code) -> Result<String, DocumentError> {
    rewritten(text, |name, lines| match sections.iter().find(|section| section.name == name) {
        None => lines.concat(),
        Some(section) => format!("{}\n\n{}\n\n", measured(&code.commit, &code.hash), section.body.trim()),
    })
}

/// The document with a line in each section whose figures are older than its code, and none in the others.
///
/// # Panics
/// Where a section's code isn't among these.
pub fn marked(text: &str, code: &BTreeMap<String, Code>) -> Result<String, DocumentError> {
    rewritten(text, |name, lines| marked_lines(&lines.concat(), &code[name]))
}

fn marked_lines(lines: &str, code: &Code) -> String {
    let Some((head, body)) = lines.split_once('\n') else { return lines.to_owned() };
    // What was never measured can't be old.
    let Some((commit, hash)) = named(head, "measured").and_then(measured_on) else { return lines.to_owned() };
    let body = without_mark(body);
    if hash == code.hash && code.changed.is_empty() {
        return format!("{head}\n{body}");
    }
    format!("{head}\n\n{MARK_START}{commit}{MARK_END}\n{body}")
}

fn measured_on(words: &str) -> Option<(&str, &str)> {
    let (commit, hash) = words.split_once(' ')?;
    Some((commit.strip_prefix("commit=")?, hash.strip_prefix("code=")?))
}

/// Without the mark and the empty line before it.
fn without_mark(body: &str) -> &str {
    let rest = body.trim_start_matches('\n');
    match rest.split_once('\n') {
        Some((mark, rest)) if mark.starts_with(MARK_START) && mark.ends_with(MARK_END) => rest,
        _no_mark => body,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(hash: &str) -> Code {
        Code { commit: "abc".to_owned(), hash: hash.to_owned(), changed: Vec::new() }
    }

    fn of_x(code: Code) -> BTreeMap<String, Code> {
        [("x".to_owned(), code)].into()
    }

    fn section(name: &str, body: &str) -> Section {
        Section { name: name.to_owned(), body: body.to_owned() }
    }

    const EMPTY: &str = "a\n<!-- report:begin x -->\nnothing yet\n<!-- report:end x -->\nb\n";
    const WRITTEN: &str = "a\n<!-- report:begin x -->\n<!-- report:measured commit=abc code=1 -->\n\n| 1 |\n\n\
                           <!-- report:end x -->\nb\n";

    #[test]
    fn a_section_takes_the_place_of_the_former_one_and_of_nothing_around_it() {
        let once = spliced(EMPTY, &[section("x", "| 1 |\n")], &code("1")).expect("a place");
        assert_eq!(once, WRITTEN);
        assert_eq!(spliced(&once, &[section("x", "| 1 |")], &code("1")).expect("a place"), once);
    }

    #[test]
    fn a_section_that_was_not_measured_stays() {
        assert_eq!(spliced(WRITTEN, &[section("y", "| 2 |")], &code("2")).expect("a document"), WRITTEN);
        assert_eq!(names(WRITTEN), Ok(vec!["x".to_owned()]));
    }

    #[test]
    fn comments_out_of_place_are_an_error_that_says_where() {
        for (text, line) in [
            ("<!-- report:begin x -->\n", 1),
            ("a\n<!-- report:end x -->\n", 2),
            ("<!-- report:begin x -->\n<!-- report:begin y -->\n", 2),
            ("<!-- report:begin x -->\n\n<!-- report:end y -->\n", 3),
        ] {
            let error = names(text).expect_err(text);
            assert!(
                matches!(error, DocumentError::OutOfPlace { line: at, .. } if at == line),
                "{error} in {text}"
            );
        }
    }

    #[test]
    fn a_section_older_than_the_code_is_marked_once_and_one_as_new_is_not() {
        assert_eq!(marked(WRITTEN, &of_x(code("1"))).expect("a document"), WRITTEN);
        let old = marked(WRITTEN, &of_x(code("2"))).expect("a document");
        assert!(old.contains("\n\n**Measured on abc; the code has changed since.**\n\n| 1 |\n"), "{old}");
        assert_eq!(marked(&old, &of_x(code("3"))).expect("a document"), old);
        assert_eq!(marked(&old, &of_x(code("1"))).expect("a document"), WRITTEN);
        assert_eq!(spliced(&old, &[section("x", "| 1 |")], &code("1")).expect("a document"), WRITTEN);
    }

    #[test]
    fn a_section_is_as_old_as_its_own_code_says() {
        let both = WRITTEN.to_owned() + &WRITTEN.replace(" x -->", " y -->");
        let code = [("x".to_owned(), code("1")), ("y".to_owned(), code("2"))].into();
        let text = marked(&both, &code).expect("a document");
        assert_eq!(text.matches(MARK_END).count(), 1);
        assert!(text.starts_with(WRITTEN), "{text}");
    }

    #[test]
    fn changes_that_are_not_committed_are_newer_than_any_figure() {
        let changed = Code { changed: vec!["server/src/a.rs".to_owned()], ..code("1") };
        assert!(marked(WRITTEN, &of_x(changed)).expect("a document").contains(MARK_END));
    }

    #[test]
    fn what_was_never_measured_is_not_marked() {
        assert_eq!(marked(EMPTY, &of_x(code("1"))).expect("a document"), EMPTY);
    }
}
