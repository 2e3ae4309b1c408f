//! The file of a profile: JSON, of a version, and never larger than a megabyte.

use crate::profile::Profile;
use crate::{ClockEvidence, ClockSource, Figure, Policy, Timed};
use serde::{Deserialize, Serialize};
use std::io::{self, Write};

/// Files of later versions are refused by name.
const VERSION: u32 = 2;
/// Files of this version are read: their totals are means times counts, by the wall clock, and are
/// reconciled without a clock.
const EARLIER: u32 = 1;

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
    #[error(
        "it is of version {0}, and this is version {VERSION}, which reads {EARLIER}, too: use the fastinst that wrote it"
    )]
    Version(u32),
    /// Numbers that cannot be.
    #[error("function {0} has numbers that cannot be: the file is damaged")]
    Unsound(u32),
    /// Too large.
    #[error("it has {0} bytes, more than any profile: it is damaged, or something else")]
    TooLarge(usize),
}

impl Profile {
    /// Writes it. What makes it too large is left out, from the least expensive functions on, and
    /// noted.
    pub fn to_file(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(&self.fitting(Self::encode))
    }

    /// In another form, made no larger than a file in the same way.
    pub fn fitting(&self, encode: impl Fn(&Self) -> Vec<u8>) -> Vec<u8> {
        let mut bytes = encode(self);
        let mut slim: Option<Self> = None;
        let mut keep = self.functions.len();
        let base = if bytes.len() > LARGEST { self.base(&encode) } else { 0 };
        while bytes.len() > LARGEST && keep > 0 {
            // By how much histograms and callers are too large, and a little more.
            let (room, taken) =
                (LARGEST.saturating_sub(base), bytes.len().saturating_sub(base).max(1));
            keep = (keep * room / taken * 9 / 10).min(keep - 1);
            let slim = slim.get_or_insert_with(|| self.clone());
            slim.thin_out(keep);
            slim.thin_out_stacks();
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
                slim.retain(|function| kept.contains(&function.id));
                bytes = encode(slim);
            }
            slim.header.notes.push(format!(
                "{} functions of {gone} are left out: the file would be too large",
                gone - count
            ));
            bytes = encode(slim);
        }
        bytes
    }

    /// How large it is without histograms and callers.
    fn base(&self, encode: &impl Fn(&Self) -> Vec<u8>) -> usize {
        let mut bare = self.clone();
        bare.thin_out(0);
        bare.thin_out_stacks();
        encode(&bare).len()
    }

    /// Leaves functions out. Stacks keep their time, without the frames of these.
    fn retain(&mut self, is_kept: impl Fn(&crate::Function) -> bool) {
        let mut next = 0..;
        let positions: Vec<Option<u32>> = self
            .functions
            .iter()
            .map(|function| is_kept(function).then(|| next.next()).flatten())
            .collect();
        self.functions.retain(is_kept);
        for stack in &mut self.stacks {
            stack.frames = stack.frames.iter().filter_map(|at| positions[*at as usize]).collect();
        }
        self.stacks.retain(|stack| !stack.frames.is_empty());
    }

    fn encode(&self) -> Vec<u8> {
        serde_json::to_vec(&File { fastinst: VERSION, profile: self }).unwrap_or_default()
    }

    /// The numbers of all functions, those that take most of the time first.
    fn by_cost(&self) -> Vec<crate::FuncId> {
        let cost = |function: &crate::Function| {
            function.total.map_or(0.0, |total| total.value).max(function.calls.value)
        };
        let mut all: Vec<_> =
            self.functions.iter().map(|function| (cost(function), function.id)).collect();
        all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        all.into_iter().map(|(_, id)| id).collect()
    }

    /// Leaves histograms and arcs to those that take most of the time.
    fn thin_out(&mut self, keep: usize) {
        let kept: std::collections::HashSet<_> = self.by_cost().into_iter().take(keep).collect();
        for function in self.functions.iter_mut().filter(|function| !kept.contains(&function.id)) {
            function.histogram = crate::Histogram::default();
            function.arcs.clear();
            function.exemplars.clear();
            // What reconciled figures were made of.
            function.timed = Timed::default();
        }
        const NOTE: &str = "histograms and callers of the least expensive functions are left out";
        if !self.header.notes.iter().any(|note| note == NOTE) {
            self.header.notes.push(NOTE.to_owned());
        }
    }

    /// Leaves out the lightest stacks: all stacks together take no more than a third of the file.
    fn thin_out_stacks(&mut self) {
        let mut order: Vec<usize> = (0..self.stacks.len()).collect();
        order.sort_by(|a, b| self.stacks[*b].time.total_cmp(&self.stacks[*a].time).then(a.cmp(b)));
        let mut room = LARGEST / 3;
        let fits = |at: &usize| {
            let needed = 60 + 7 * self.stacks[*at].frames.len();
            room = room.saturating_sub(needed);
            room > 0
        };
        let kept: std::collections::HashSet<usize> = order.into_iter().take_while(fits).collect();
        let gone = self.stacks.len() - kept.len();
        if gone > 0 {
            let mut at = 0..;
            self.stacks.retain(|_| at.next().is_some_and(|at: usize| kept.contains(&at)));
            self.header.notes.push(format!("{gone} stacks with the least time are left out"));
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
        if ![EARLIER, VERSION].contains(&fastinst) {
            return Err(FileError::Version(fastinst));
        }
        let File { mut profile, .. }: File<Self> = serde_json::from_slice(bytes)?;
        match profile.functions.iter().find(|function| !function.is_sound(profile.modules.len())) {
            Some(function) => return Err(FileError::Unsound(function.id.0)),
            None if !profile.is_sound() => return Err(FileError::Unsound(0)),
            None => {}
        }
        if fastinst == EARLIER {
            profile.update();
        }
        Ok(profile)
    }

    /// Whether what belongs to no function is such as can be measured.
    fn is_sound(&self) -> bool {
        let header = &self.header;
        let times = [
            header.processor,
            header.system,
            header.unknown,
            header.seconds,
            header.floor,
            header.null,
        ];
        let functions = self.functions.len();
        let is_stack = |stack: &crate::Stack| {
            stack.time.is_finite() && stack.frames.iter().all(|at| (*at as usize) < functions)
        };
        header.hz.is_finite()
            && header.hz > 0.0
            && times.iter().all(|time| time.is_finite())
            && self.stacks.iter().all(is_stack)
    }

    /// Makes a profile of the earlier version one of this: its times are what probes have told.
    fn update(&mut self) {
        for function in &mut self.functions {
            let all = function.is_timed_as_of_old();
            let known = |figure: Option<Figure>| {
                figure.map(|figure| if all { figure } else { figure.widened(0.0) })
            };
            let seen = function.mean.map_or(0.0, |mean| mean.value * function.samples as f64);
            function.timed = Timed {
                seen,
                mean: function.mean,
                total: known(function.total),
                own: known(function.own),
            };
        }
        let source = match self.header.policy == Policy::Exact.to_string() {
            true => ClockSource::Probes,
            false => ClockSource::None {
                why: "the profile was written by a version that had no clock".to_owned(),
            },
        };
        self.reconcile(&ClockEvidence { source, ..ClockEvidence::default() });
    }
}

impl crate::Function {
    /// Whether every call of it was timed and has ended, by what files of the earlier version say.
    fn is_timed_as_of_old(&self) -> bool {
        self.calls.is_exact() && self.lost == 0 && self.samples as f64 >= self.calls.value
    }

    /// Whether its numbers are such as can be measured: a file may hold anything.
    fn is_sound(&self, modules: usize) -> bool {
        let figures = [Some(self.calls), self.mean, self.total, self.own, self.cpu, self.wall];
        let labels = self.arcs.iter().filter_map(|arc| arc.caller.as_ref()).chain([&self.label]);
        let holds =
            |figure: &Figure| (figure.interval().0..=figure.interval().1).contains(&figure.value);
        figures.into_iter().flatten().all(|figure| figure.is_sound() && holds(&figure))
            && self.calls.interval().0 >= 0.0
            && [self.min, self.max]
                .into_iter()
                .flatten()
                .all(|value| value.is_finite() && value >= 0.0)
            && self.min.unwrap_or(0.0) <= self.max.unwrap_or(f64::MAX)
            && self.histogram.is_sound()
            && self.timed.is_sound()
            && self.arcs.iter().all(|arc| arc.share.is_finite())
            && labels
                .into_iter()
                .all(|label| label.module.is_none_or(|module| (module as usize) < modules))
    }
}
