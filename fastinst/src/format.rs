//! Formats of profiles. One list, for the environment and for the command.

use profiler::{Profile, TableOptions};
use std::fmt;
use std::str::FromStr;

/// The format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The profile itself, for `fastinst report` and `fastinst diff`.
    Profile,
    /// A table.
    Table,
    /// JSON.
    Json,
    /// CSV.
    Csv,
    /// Folded stacks, for flame graphs.
    Folded,
    /// For `pprof`.
    Pprof,
    /// Text in `gprof`'s format.
    Gprof,
    /// An HTML page.
    Html,
    /// A flame graph.
    Svg,
    /// For KCachegrind and callgrind_annotate.
    Callgrind,
    /// A call graph for Graphviz.
    Dot,
    /// For speedscope.
    Speedscope,
    /// For the Firefox Profiler.
    Firefox,
    /// The slowest calls as a timeline, for Perfetto.
    Trace,
}

impl Format {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Profile,
        Self::Table,
        Self::Json,
        Self::Csv,
        Self::Folded,
        Self::Pprof,
        Self::Gprof,
        Self::Html,
        Self::Svg,
        Self::Callgrind,
        Self::Dot,
        Self::Speedscope,
        Self::Firefox,
        Self::Trace,
    ];

    /// What it is called, and what it is for.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Profile => ("profile", "Profile file, for fastinst report and fastinst diff"),
            Self::Table => ("table", "Table"),
            Self::Json => ("json", "JSON, for scripts"),
            Self::Csv => ("csv", "CSV, for spreadsheets"),
            Self::Folded => ("folded", "Folded stacks, for flame graphs"),
            Self::Pprof => ("pprof", "pprof's protocol buffers"),
            Self::Gprof => ("gprof", "Text in gprof's format"),
            Self::Html => ("html", "HTML page: table, flame graph, histograms"),
            Self::Svg => ("svg", "Flame graph as SVG"),
            Self::Callgrind => ("callgrind", "For KCachegrind and callgrind_annotate"),
            Self::Dot => ("dot", "Call graph for Graphviz"),
            Self::Speedscope => ("speedscope", "For speedscope"),
            Self::Firefox => ("firefox", "For the Firefox Profiler"),
            Self::Trace => ("trace", "Timeline of the slowest calls, for Perfetto"),
        }
    }

    /// What it is called.
    pub const fn name(self) -> &'static str {
        self.words().0
    }

    /// What it is for.
    pub const fn purpose(self) -> &'static str {
        self.words().1
    }

    /// Whether it is no text, and a terminal would take parts of it for commands.
    pub const fn is_binary(self) -> bool {
        matches!(self, Self::Profile | Self::Pprof)
    }

    /// A profile in this format.
    pub fn bytes(self, profile: &Profile, table: &TableOptions) -> std::io::Result<Vec<u8>> {
        Ok(match self {
            Self::Profile => {
                let mut bytes = Vec::new();
                profile.to_file(&mut bytes)?;
                bytes
            }
            Self::Table => profile.table(table).into_bytes(),
            Self::Json => profile.json().into_bytes(),
            Self::Csv => profile.csv().into_bytes(),
            Self::Folded => profile.folded().into_bytes(),
            Self::Pprof => profile.pprof(),
            Self::Gprof => profile.gprof().into_bytes(),
            Self::Html => profile.html().into_bytes(),
            Self::Svg => profile.svg().into_bytes(),
            Self::Callgrind => profile.callgrind().into_bytes(),
            Self::Dot => profile.dot().into_bytes(),
            Self::Speedscope => profile.speedscope().into_bytes(),
            Self::Firefox => profile.firefox().into_bytes(),
            Self::Trace => profile.trace().into_bytes(),
        })
    }
}

/// An unknown format name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown format {wrong}: the formats are {}", known(), wrong = self.0)]
pub struct NoFormat(pub String);

fn known() -> String {
    Format::ALL.map(Format::name).join(", ")
}

impl FromStr for Format {
    type Err = NoFormat;

    fn from_str(name: &str) -> Result<Self, NoFormat> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == name)
            .ok_or_else(|| NoFormat(name.to_owned()))
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_format_is_known_by_its_name_and_named_where_one_is_not_known() {
        let complaint = "yaml".parse::<Format>().unwrap_err().to_string();
        for format in Format::ALL {
            assert_eq!(format.to_string().parse(), Ok(format));
            assert!(complaint.contains(format.name()), "{complaint}");
        }
    }
}
