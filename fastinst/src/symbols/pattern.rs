//! Patterns of functions.
//!
//! | pattern | names |
//! |---|---|
//! | `parse_*` | functions, by a glob |
//! | `/^std::/` | functions, by a regular expression |
//! | `@libz*` | all functions of libraries, by a glob of the file's name |
//! | `main.c:` | all functions of a source file, by the end of its path |
//! | `size<64` | functions of so many bytes; also `<=`, `>`, `>=` |

use globset::{GlobBuilder, GlobMatcher};
use regex_lite::Regex;
use std::cmp::Ordering;

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid pattern '{pattern}': {why}; write a glob such as 'parse_*', a regular expression such \
     as '/^std::/', '@library', 'file.c:' or 'size<64'"
)]
pub struct PatternError {
    pattern: String,
    why: String,
}

/// A function, as patterns look at it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Subject<'s> {
    /// Its name, as people write it.
    pub name: &'s str,
    /// The file that it is in.
    pub module: &'s str,
    /// Its source file, if it is known.
    pub file: Option<&'s str>,
    /// How many bytes it has, if that is known.
    pub size: Option<usize>,
}

/// A pattern of functions.
#[derive(Clone, Debug)]
pub enum Pattern {
    /// Of names.
    Name(GlobMatcher),
    /// Of names, too.
    Expression(Regex),
    /// Of libraries.
    Module(GlobMatcher),
    /// Of source files.
    File(String),
    /// Of functions whose size compares so with a number.
    Size(Ordering, bool, usize),
}

impl Pattern {
    /// Reads one.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let failed = |why: String| PatternError { pattern: text.to_owned(), why };
        let glob = |glob: &str| {
            let built =
                GlobBuilder::new(glob).literal_separator(false).backslash_escape(true).build();
            built
                .map(|glob| glob.compile_matcher())
                .map_err(|error| failed(error.kind().to_string()))
        };
        if text.is_empty() {
            return Err(failed("it is empty".to_owned()));
        }
        if let Some(expression) = text.strip_prefix('/').and_then(|text| text.strip_suffix('/')) {
            return Regex::new(expression)
                .map(Self::Expression)
                .map_err(|error| failed(error.to_string()));
        }
        if let Some(module) = text.strip_prefix('@') {
            return glob(module).map(Self::Module);
        }
        if let Some(size) = size(text) {
            return size.map_err(|why| failed(why.to_owned()));
        }
        match text.strip_suffix(':') {
            Some(file) if !file.ends_with(':') => Ok(Self::File(file.to_owned())),
            _ => glob(text).map(Self::Name),
        }
    }

    /// Whether it names a function. One whose size is unknown has none.
    pub fn matches(&self, subject: &Subject<'_>) -> bool {
        match self {
            Self::Name(glob) => glob.is_match(subject.name),
            Self::Expression(expression) => expression.is_match(subject.name),
            Self::Module(glob) => glob.is_match(subject.module),
            Self::File(end) => subject.file.is_some_and(|file| {
                file.strip_suffix(end.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            }),
            Self::Size(order, or_equal, bound) => subject.size.is_some_and(|size| {
                let found = size.cmp(bound);
                found == *order || (*or_equal && found == Ordering::Equal)
            }),
        }
    }

    /// Whether the source file has to be known.
    pub fn needs_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

/// `size<64` and the like. Names of C++ have no number behind such a sign at their end; what is
/// neither that nor a number is a slip.
fn size(text: &str) -> Option<Result<Pattern, &'static str>> {
    let rest = text.strip_prefix("size")?;
    let (order, rest) = match rest.split_at_checked(1)? {
        ("<", rest) => (Ordering::Less, rest),
        (">", rest) => (Ordering::Greater, rest),
        ("=", _) => return Some(Err("sizes are compared with <, <=, > and >=")),
        _ => return None,
    };
    let (or_equal, bound) = match rest.strip_prefix('=') {
        Some(bound) => (true, bound),
        None => (false, rest),
    };
    let may_be_name = order == Ordering::Less && !or_equal && bound.contains(['>', '*', '?']);
    match bound.parse() {
        Ok(bound) => Some(Ok(Pattern::Size(order, or_equal, bound))),
        Err(_) if may_be_name => None,
        Err(_) => Some(Err("a size is a number of bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(&Subject {
            name,
            module: "libz.so.1",
            file: Some("/src/lib/main.c"),
            size: Some(64),
        })
    }

    #[test]
    fn globs_and_expressions_name_functions() {
        assert!(names("parse_*", "parse_line") && !names("parse_*", "reparse_line"));
        assert!(
            names("std::*", "std::vector<a/b>::push_back")
                && names("/^std::.*back$/", "std::vector::push_back")
        );
        assert!(!names("main", "domain") && names("/main/", "domain"));
    }

    #[test]
    fn libraries_and_files_are_named_by_their_ends() {
        assert!(names("@libz*", "inflate") && !names("@libc*", "inflate"));
        assert!(names("main.c:", "x") && names("lib/main.c:", "x") && !names("ain.c:", "x"));
    }

    #[test]
    fn sizes_are_compared() {
        assert!(names("size<65", "x") && !names("size<64", "x") && names("size<=64", "x"));
        assert!(names("size>63", "x") && !names("size>64", "x") && names("size>=64", "x"));
        assert!(names("size<64>", "size<64>"), "a name of C++");
        assert!(names("size<*", "size<int>") && names("size*", "size_of"));
        for slip in ["size<", "size>=x", "size=3", "size<64b", "size>int>"] {
            let error = Pattern::parse(slip).expect_err(slip).to_string();
            assert!(error.contains(slip) && error.contains("size<64"), "{error}");
        }
        let unknown = Subject { name: "x", ..Subject::default() };
        assert!(!Pattern::parse("size>0").unwrap().matches(&unknown));
    }

    #[test]
    fn what_is_no_pattern_says_how_to_write_one() {
        for wrong in ["", "/(/", "[", "@["] {
            assert!(
                Pattern::parse(wrong).unwrap_err().to_string().contains("invalid pattern"),
                "{wrong}"
            );
        }
    }
}
