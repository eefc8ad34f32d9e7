//! A label's name as it stands in a path: percent-encoded, and perhaps in Prometheus' `U__` escaping
//! for names beyond letters, digits and `_`.

use percent_encoding::percent_decode_str;

/// The name; `None` where there is no such name.
pub(crate) fn from_path(segment: &str) -> Option<String> {
    let decoded = percent_decode_str(segment).decode_utf8().ok()?;
    let name = unescape(&decoded).unwrap_or_else(|| decoded.into_owned());
    (!name.is_empty()).then_some(name)
}

/// What stands for `U__…`: `__` for `_`, and `_2e_` for the character with that number. `None` for
/// a name that isn't escaped so: then it is meant as it stands.
fn unescape(name: &str) -> Option<String> {
    let mut rest = name.strip_prefix("U__")?;
    let mut out = String::new();
    while let Some((plain, after)) = rest.split_once('_') {
        out.push_str(plain);
        let (code, after) = after.split_once('_')?;
        out.push(if code.is_empty() { '_' } else { char::from_u32(u32::from_str_radix(code, 16).ok()?)? });
        rest = after;
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(segment: &str, expect: Option<&str>) {
        assert_eq!(from_path(segment).as_deref(), expect, "{segment}");
    }

    #[test]
    fn names_are_decoded() {
        check("job", Some("job"));
        check("__name__", Some("__name__"));
        check("a%2Fb%20c", Some("a/b c"));
        check("h%C3%B6he", Some("höhe"));
        check("", None);
        check("%ff", None);
    }

    #[test]
    fn escaped_names_are_unescaped_and_others_left() {
        check("U__my_2e_name", Some("my.name"));
        check("U__a__b", Some("a_b"));
        check("U___1f600_", Some("😀"));
        check("U__a_zz_b", Some("U__a_zz_b"));
        check("U__a_d800_b", Some("U__a_d800_b"));
        check("U__a_2e", Some("U__a_2e"));
        check("U__", None);
    }
}
