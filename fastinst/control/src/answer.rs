//! Answers: `ok` or `error` on a line, and what there is to say behind it.

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It was done: a text, or the bytes of a profile.
    Done(Vec<u8>),
    /// It was not: why.
    Refused(String),
}

impl From<Result<Vec<u8>, String>> for Answer {
    fn from(result: Result<Vec<u8>, String>) -> Self {
        match result {
            Ok(bytes) => Self::Done(bytes),
            Err(why) => Self::Refused(why),
        }
    }
}

const DONE: &[u8] = b"ok";
const REFUSED: &[u8] = b"error";

impl Answer {
    /// As it is sent.
    pub fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Done(bytes) => [DONE, b"\n", bytes].concat(),
            Self::Refused(why) => [REFUSED, b"\n", why.as_bytes()].concat(),
        }
    }

    /// As it has come; `None` if it is something else.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.iter().position(|&byte| byte == b'\n')?;
        let (first, rest) = (&bytes[..end], &bytes[end + 1..]);
        match first {
            DONE => Some(Self::Done(rest.to_owned())),
            REFUSED => Some(Self::Refused(String::from_utf8_lossy(rest).trim_end().to_owned())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_they_are_sent_and_nothing_else_is() {
        let all = [Answer::Done(b"a\nb\xff".to_vec()), Answer::Refused("no: why".to_owned())];
        for answer in all {
            assert_eq!(Answer::read(&answer.bytes()), Some(answer));
        }
        for other in [&b""[..], b"ok", b"okay\nyes", b"\nok\n"] {
            assert_eq!(Answer::read(other), None);
        }
    }
}
