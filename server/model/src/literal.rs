//! PromQL's string literals: Go's escapes between `"` or `'`, and none between backquotes.

/// Where in the text something is wrong, in bytes, and what.
pub type LiteralError = (usize, &'static str);

/// Reads the literal that `text` begins with: its content and its length in the text. `None`: it
/// begins with no quote.
pub fn read(text: &str) -> Result<Option<(String, usize)>, LiteralError> {
    match text.as_bytes().first() {
        Some(b'`') => raw(text).map(Some),
        Some(quote @ (b'"' | b'\'')) => escaped(text, *quote).map(Some),
        Some(_) | None => Ok(None),
    }
}

fn raw(text: &str) -> Result<(String, usize), LiteralError> {
    let len = text[1..].find('`').ok_or((0, "the string has no end"))?;
    Ok((text[1..=len].to_owned(), len + 2))
}

fn escaped(text: &str, quote: u8) -> Result<(String, usize), LiteralError> {
    let bytes = text.as_bytes();
    let (mut content, mut at) = (Vec::new(), 1);
    loop {
        match *bytes.get(at).ok_or((0, "the string has no end"))? {
            b'\n' => return Err((at, "a line ends within the string")),
            b'\\' => at += unescape(&bytes[at..], quote, &mut content).map_err(|problem| (at, problem))?,
            byte if byte == quote => break,
            byte => {
                content.push(byte);
                at += 1;
            }
        }
    }
    let content = String::from_utf8(content).map_err(|_| (0, "the string is not valid UTF-8"))?;
    Ok((content, at + 1))
}

/// Appends what the escape at the front stands for, and gives its length.
fn unescape(escape: &[u8], quote: u8, content: &mut Vec<u8>) -> Result<usize, &'static str> {
    const UNKNOWN: &str = "unknown escape";
    let kind = *escape.get(1).ok_or("the string has no end")?;
    let plain = match kind {
        b'a' => 0x07,
        b'b' => 0x08,
        b'f' => 0x0c,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 0x0b,
        b'\\' => b'\\',
        b'0'..=b'7' => return byte_of(&escape[1..], 3, 8, content).map(|len| len + 1),
        b'x' => return byte_of(&escape[2..], 2, 16, content).map(|len| len + 2),
        b'u' => return char_of(&escape[2..], 4, content).map(|len| len + 2),
        b'U' => return char_of(&escape[2..], 8, content).map(|len| len + 2),
        other if other == quote => quote,
        _unknown => return Err(UNKNOWN),
    };
    content.push(plain);
    Ok(2)
}

fn byte_of(text: &[u8], digits: usize, radix: u32, content: &mut Vec<u8>) -> Result<usize, &'static str> {
    content.push(u8::try_from(number(text, digits, radix)?).map_err(|_| "the escape is above 255")?);
    Ok(digits)
}

fn char_of(text: &[u8], digits: usize, content: &mut Vec<u8>) -> Result<usize, &'static str> {
    let c = char::from_u32(number(text, digits, 16)?).ok_or("the escape is no character")?;
    content.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    Ok(digits)
}

fn number(text: &[u8], digits: usize, radix: u32) -> Result<u32, &'static str> {
    let text = text.get(..digits).ok_or("the escape is too short")?;
    let digit = |byte: &u8| char::from(*byte).to_digit(radix).ok_or("not a digit in an escape");
    text.iter().try_fold(0u32, |number, byte| Ok(number.wrapping_mul(radix) + digit(byte)?))
}
