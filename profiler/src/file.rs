//! The file of a profile: JSON, of a version, and never larger than a megabyte.

use crate::profile::Profile;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Files of another version are refused by name.
const VERSION: u32 = 1;

/// No file is larger.
const LARGEST: usize = 1_000_000;

/// What a file begins with.
#[derive(Serialize, Deserialize)]
struct File<P> {
    fastinst: u32,
    profile: P,
}

/// Why a file is no profile.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It is no JSON, or other JSON.
    #[error("it is no profile: {0}")]
    NoProfile(#[from] serde_json::Error),
    /// Another version.
    #[error("it is of version {0}, and this is version {VERSION}: use the fastinst that wrote it")]
    Version(u32),
    /// Numbers that cannot be.
    #[error("function {0} has numbers that cannot be: the file is damaged")]
    Unsound(u32),
    /// Too large.
    #[error("it has {0} bytes, more than any profile: it is damaged, or something else")]
    TooLarge(usize),
}

impl Profile {
    /// Writes it. What makes it too large is left out, from the least expensive functions on, and noted.
    pub fn to_file(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.fitting(Self::encode))
    }

    /// In another form, made no larger than a file in the same way.
    pub fn fitting(&self, encode: impl Fn(&Self) -> Vec<u8>) -> Vec<u8> {
        let mut bytes = encode(self);
        let mut slim: Option<Self> = None;
        let mut keep = self.functions.len();
        while bytes.len() > LARGEST && keep > 0 {
            // By how much it is too large, and a little more.
            keep = (keep * LARGEST / bytes.len() * 9 / 10).min(keep - 1);
            let slim = slim.get_or_insert_with(|| self.clone());
            slim.thin_out(keep);
            bytes = encode(slim);
        }
        let slim = slim.as_mut();
        if let Some(slim) = slim.filter(|_| bytes.len() > LARGEST) {
            // Not even without histograms: the names are too many.
            let by_cost = slim.by_cost();
            let gone = by_cost.len();
            let mut count = gone;
            while bytes.len() > LARGEST && count > 0 {
                count = (count * LARGEST / bytes.len() * 9 / 10).min(count - 1);
                let kept: std::collections::HashSet<_> = by_cost[..count].iter().collect();
                slim.functions.retain(|function| kept.contains(&function.id));
                bytes = encode(slim);
            }
            slim.header.notes.push(format!("{} functions of {gone} are left out: the file would be too large", gone - count));
            bytes = encode(slim);
        }
        bytes
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&File { fastinst: VERSION, profile: self }).unwrap_or_default()
    }

    /// The numbers of all functions, those that take most of the time first.
    fn by_cost(&self) -> Vec<crate::FuncId> {
        let cost = |function: &crate::Function| function.total.map_or(0.0, |total| total.value).max(function.calls.value);
        let mut all: Vec<_> = self.functions.iter().map(|function| (cost(function), function.id)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Leaves histograms and arcs to those that take most of the time.
    fn thin_out(&mut self, keep: usize) {
        let kept: std::collections::HashSet<_> = self.by_cost().into_iter().take(keep).collect();
        for function in self.functions.iter_mut().filter(|function| !kept.contains(&function.id)) {
            function.histogram = crate::Histogram::default();
            function.arcs.clear();
        }
        const NOTE: &str = "histograms and callers of the least expensive functions are left out";
        if !self.header.notes.iter().any(|note| note == NOTE) {
            self.header.notes.push(NOTE.to_owned());
        }
    }

    /// Reads one.
    pub fn from_file(bytes: &[u8]) -> Result<Self, FileError> {
        if bytes.len() > 64 * LARGEST {
            return Err(FileError::TooLarge(bytes.len()));
        }
        #[derive(Deserialize)]
        struct Version {
            fastinst: u32,
        }
        let Version { fastinst } = serde_json::from_slice(bytes)?;
        if fastinst != VERSION {
            return Err(FileError::Version(fastinst));
        }
        let File { profile, .. }: File<Self> = serde_json::from_slice(bytes)?;
        match profile.functions.iter().find(|function| !function.is_sound(profile.modules.len())) {
            Some(function) => Err(FileError::Unsound(function.id.0)),
            None if !(profile.header.hz.is_finite() && profile.header.hz > 0.0) => Err(FileError::Unsound(0)),
            None => Ok(profile),
        }
    }
}

impl crate::Function {
    /// Whether its numbers are such as can be measured: a file may hold anything.
    fn is_sound(&self, modules: usize) -> bool {
        let figures = [Some(self.calls), self.mean, self.total, self.own];
        let labels = self.arcs.iter().filter_map(|arc| arc.caller.as_ref()).chain([&self.label]);
        figures.into_iter().flatten().all(|figure| figure.is_sound())
            && self.calls.value >= 0.0
            && [self.min, self.max].into_iter().flatten().all(f64::is_finite)
            && self.histogram.is_sound()
            && self.arcs.iter().all(|arc| arc.share.is_finite())
            && labels.into_iter().all(|label| label.module.is_none_or(|module| (module as usize) < modules))
    }
}
