//! The programs that an experiment runs: all, or those that were named. An unknown name is an
//! error, not an experiment without rows.

/// The requested programs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Selection<'a>(&'a [String]);

/// A name that no program of the experiment has.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("no program is called {name}: {remedy}")]
pub(crate) struct Unknown {
    name: String,
    remedy: String,
}

impl<'a> Selection<'a> {
    /// Selects `names`, each of which must be `known`; all, if there are no names.
    pub(crate) fn new<'k>(
        names: &'a [String],
        known: impl IntoIterator<Item = &'k str>,
    ) -> Result<Self, Unknown> {
        let known: Vec<&str> = known.into_iter().collect();
        match names.iter().find(|name| !known.contains(&name.as_str())) {
            None => Ok(Self(names)),
            Some(name) => Err(Unknown { name: name.clone(), remedy: remedy(name, &known) }),
        }
    }

    pub(crate) fn holds(self, program: &str) -> bool {
        self.0.is_empty() || self.0.iter().any(|name| name == program)
    }
}

/// The names that may have been meant, or all names.
fn remedy(name: &str, known: &[&str]) -> String {
    let lower = name.to_lowercase();
    let is_near = |known: &&&str| {
        known.contains(&lower)
            || lower.contains(**known)
            || strsim::levenshtein(&lower, known) <= 1 + lower.len() / 4
    };
    let near: Vec<&str> = known.iter().filter(is_near).copied().collect();
    match near.is_empty() {
        true => format!("there are {}", known.join(", ")),
        false => format!("perhaps {}", near.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [&str; 4] = ["lz4", "zstd", "quicksort", "quickjs"];

    fn select(names: &[&str]) -> Result<Vec<&'static str>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let selection = Selection::new(&names, KNOWN).map_err(|error| error.to_string())?;
        Ok(KNOWN.into_iter().filter(|program| selection.holds(program)).collect())
    }

    #[test]
    fn who_names_nothing_gets_everything() {
        assert_eq!(select(&[]), Ok(KNOWN.to_vec()));
        assert_eq!(select(&["zstd", "lz4"]), Ok(vec!["lz4", "zstd"]));
    }

    #[test]
    fn a_name_that_is_not_there_is_an_error_that_tells_what_is() {
        assert_eq!(select(&["lz4", "lz5"]), Err("no program is called lz5: perhaps lz4".into()));
        assert_eq!(
            select(&["Quick"]),
            Err("no program is called Quick: perhaps quicksort or quickjs".into())
        );
        assert_eq!(
            select(&["doom"]),
            Err("no program is called doom: there are lz4, zstd, quicksort, quickjs".into())
        );
        assert!(select(&[""]).is_err());
    }
}
