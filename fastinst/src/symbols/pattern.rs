//! Patterns of functions.
//!
//! | pattern | names |
//! |---|---|
//! | `parse_*` | functions, by a glob |
//! | `/^std::/` | functions, by a regular expression |
//! | `@libz*` | all functions of libraries, by a glob of the file's name |
//! | `main.c:` | all functions of a source file, by the end of its path |

use globset::{GlobBuilder, GlobMatcher};
use regex_lite::Regex;

/// What is wrong with a pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid pattern '{pattern}': {why}; write a glob such as 'parse_*', a regular expression such as '/^std::/', '@library' or 'file.c:'"
)]
pub struct PatternError {
    pattern: String,
    why: String,
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
        match text.strip_suffix(':') {
            Some(file) if !file.ends_with(':') => Ok(Self::File(file.to_owned())),
            _ => glob(text).map(Self::Name),
        }
    }

    /// Whether it names a function of that name, in the file of that name, from that source file.
    pub fn matches(&self, name: &str, module: &str, file: Option<&str>) -> bool {
        match self {
            Self::Name(glob) => glob.is_match(name),
            Self::Expression(expression) => expression.is_match(name),
            Self::Module(glob) => glob.is_match(module),
            Self::File(end) => file.is_some_and(|file| {
                file.strip_suffix(end.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.ends_with('/'))
            }),
        }
    }

    /// Whether the source file has to be known.
    pub fn needs_file(&self) -> bool {
        matches!(self, Self::File(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(name, "libz.so.1", Some("/src/lib/main.c"))
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
    fn what_is_no_pattern_says_how_to_write_one() {
        for wrong in ["", "/(/", "[", "@["] {
            assert!(
                Pattern::parse(wrong).unwrap_err().to_string().contains("invalid pattern"),
                "{wrong}"
            );
        }
    }
}
