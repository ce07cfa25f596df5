//! The little of MIME that user data needs: `multipart/mixed` in and out.

use super::UserDataError;

/// The boundary of what we write. Shell scripts and YAML do not hold a line that begins with `--//`.
const BOUNDARY: &str = "//";
pub const SHELL_SCRIPT: &str = "text/x-shellscript; charset=\"us-ascii\"";
pub const NODE_CONFIG: &str = "application/node.eks.aws";

/// Names and values.
pub type Headers = Vec<(String, String)>;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// In order of name.
    pub headers: Headers,
    pub body: String,
}

impl Part {
    pub fn new(content_type: &str, body: impl Into<String>) -> Self {
        Self { headers: vec![(CONTENT_TYPE.to_owned(), content_type.to_owned())], body: body.into() }
    }

    pub fn content_type(&self) -> &str {
        header(&self.headers, CONTENT_TYPE).unwrap_or_default()
    }

    /// The media type alone, in lower case.
    pub fn media_type(&self) -> String {
        self.content_type().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
    }
}

const CONTENT_TYPE: &str = "Content-Type";

/// Without carriage returns, which some of the readers stumble over.
pub fn write(parts: &[Part]) -> String {
    let mut text = format!("MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"{BOUNDARY}\"\n\n");
    for (position, part) in parts.iter().enumerate() {
        let before = if position == 0 { "" } else { "\n" };
        text.push_str(&format!("{before}--{BOUNDARY}\n"));
        for (name, value) in &part.headers {
            text.push_str(&format!("{name}: {value}\n"));
        }
        text.push('\n');
        text.push_str(&part.body);
    }
    text.push_str(&format!("\n--{BOUNDARY}--\n"));
    text.replace('\r', "")
}

/// What was read, and what was passed over without being a fault to upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    pub parts: Vec<Part>,
    pub notes: Vec<String>,
}

/// The parts of a multipart document, outermost level only.
pub fn read(text: &str) -> Result<Document, UserDataError> {
    let text = text.replace("\r\n", "\n");
    let (headers, body) = read_headers(text.trim_start())?;
    let content_type =
        header(&headers, CONTENT_TYPE).ok_or_else(|| fault("the document has no Content-Type header".to_owned()))?;
    if !content_type.trim_start().to_ascii_lowercase().starts_with("multipart/") {
        return Err(fault(format!("the document is not multipart MIME but {content_type:?}")));
    }
    let boundary = parameter(content_type, "boundary")
        .filter(|boundary| !boundary.is_empty())
        .ok_or_else(|| fault(format!("{content_type:?} names no boundary")))?;
    read_parts(body, &boundary)
}

/// Go's reader, and so upstream, takes the end of the text for the end of the document wherever no body is being read: after a
/// boundary, in the headers of a part, and before the first part.
fn read_parts(body: &str, boundary: &str) -> Result<Document, UserDataError> {
    let opening = format!("--{boundary}");
    let closing = format!("--{boundary}--");
    let mut parts: Vec<Part> = Vec::new();
    // The lines of the part being read; nothing before the first boundary, which is a preamble nobody sees.
    let mut current: Option<Vec<&str>> = None;
    for line in body.split('\n') {
        let bare = line.trim_end_matches([' ', '\t']);
        let closes = bare == closing;
        if closes || bare == opening {
            if let Some(lines) = current.take() {
                parts.push(read_part(&lines.join("\n"))?);
            }
            if closes {
                return Ok(Document { parts, notes: Vec::new() });
            }
            current = Some(Vec::new());
        } else if let Some(part) = &mut current {
            part.push(line);
        }
    }
    let Some(mut rest) = current else {
        let note =
            format!("user data: no line of the MIME document is its boundary {opening:?}, so all of it was dropped");
        return Ok(Document { parts, notes: vec![note] });
    };
    // The last line end ends a line, and does not begin another.
    if rest.last().is_some_and(|line| line.is_empty()) {
        rest.pop();
    }
    if rest.iter().any(|line| line.trim().is_empty()) {
        return Err(fault(format!("the closing boundary {closing:?} is missing")));
    }
    read_headers(&rest.join("\n"))?;
    let note = || "user data: the MIME document ends in the headers of its last part, which was dropped".to_owned();
    let notes = (!rest.is_empty()).then(note).into_iter().collect();
    Ok(Document { parts, notes })
}

fn read_part(text: &str) -> Result<Part, UserDataError> {
    let (headers, body) = match text.strip_prefix('\n') {
        Some(body) => (Vec::new(), body),
        None => read_headers(text)?,
    };
    let quoted = header(&headers, "Content-Transfer-Encoding")
        .is_some_and(|encoding| encoding.eq_ignore_ascii_case("quoted-printable"));
    let mut headers = headers;
    let body = if quoted {
        headers.retain(|(name, _)| name != "Content-Transfer-Encoding");
        unquote_printable(body)?
    } else {
        body.to_owned()
    };
    headers.sort();
    Ok(Part { headers, body })
}

/// Headers up to the first empty line, folded lines joined, and what follows.
fn read_headers(text: &str) -> Result<(Headers, &str), UserDataError> {
    let mut headers = Headers::new();
    let mut rest = text;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = after;
        if line.trim().is_empty() {
            return Ok((headers, rest));
        }
        if line.starts_with([' ', '\t']) {
            let Some((_, value)) = headers.last_mut() else {
                return Err(fault(format!("{line:?} continues no header")));
            };
            value.push(' ');
            value.push_str(line.trim());
        } else {
            let (name, value) =
                line.split_once(':').ok_or_else(|| fault(format!("the header line {line:?} has no colon")))?;
            // Upstream's reader passes over these two.
            if name.is_empty() || name.contains(' ') {
                continue;
            }
            if name.contains('\t') {
                return Err(fault(format!("{name:?} is not a header name")));
            }
            headers.push((canonical(name), value.trim().to_owned()));
        }
        if rest.is_empty() {
            return Ok((headers, rest));
        }
    }
}

/// `content-type` is `Content-Type`.
fn canonical(name: &str) -> String {
    let word = |word: &str| {
        let lower = word.to_ascii_lowercase();
        let mut letters = lower.chars();
        letters.next().map_or_else(String::new, |first| first.to_ascii_uppercase().to_string() + letters.as_str())
    };
    let name = name.split('-').map(word).collect::<Vec<_>>().join("-");
    if name == "Mime-Version" { "MIME-Version".to_owned() } else { name }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> Option<&'a str> {
    headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
}

/// A parameter of a header value, quoted or not.
fn parameter(value: &str, name: &str) -> Option<String> {
    let mut rest = value.split_once(';')?.1;
    loop {
        let (key, after) = rest.split_once('=')?;
        let after = after.trim_start();
        let (found, next) = match after.strip_prefix('"') {
            Some(quoted) => {
                let (text, next) = quoted.split_once('"')?;
                (text.to_owned(), next.split_once(';').map(|(_, next)| next))
            }
            None => {
                let (text, next) = after.split_once(';').map_or((after, None), |(text, next)| (text, Some(next)));
                (text.trim().to_owned(), next)
            }
        };
        if key.trim().eq_ignore_ascii_case(name) {
            return Some(found);
        }
        rest = next?;
    }
}

fn unquote_printable(text: &str) -> Result<String, UserDataError> {
    let mut bytes = Vec::with_capacity(text.len());
    for (position, line) in text.split('\n').enumerate() {
        let joined = bytes.last() == Some(&b'=');
        if joined {
            bytes.pop();
        } else if position > 0 {
            bytes.push(b'\n');
        }
        let line = line.trim_end_matches([' ', '\t']).as_bytes();
        let mut at = 0;
        while at < line.len() {
            let code = line.get(at + 1..at + 3).and_then(|hex| std::str::from_utf8(hex).ok());
            match (line[at], code.and_then(|hex| u8::from_str_radix(hex, 16).ok())) {
                (b'=', Some(byte)) => {
                    bytes.push(byte);
                    at += 3;
                }
                (b'=', None) if at + 1 < line.len() => {
                    return Err(fault("a quoted-printable part has a stray equals sign".to_owned()));
                }
                (byte, _) => {
                    bytes.push(byte);
                    at += 1;
                }
            }
        }
    }
    if bytes.last() == Some(&b'=') {
        bytes.pop();
    }
    String::from_utf8(bytes).map_err(|_| fault("a quoted-printable part is not UTF-8".to_owned()))
}

fn fault(message: String) -> UserDataError {
    UserDataError::Custom(message)
}
