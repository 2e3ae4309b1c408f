//! A program with a monitor that one of the tools has inserted.

use super::handwritten;
use super::monitor::Monitor;
use super::{ENGINES, Workshop};
use crate::corpus::CorpusError;
use crate::engine::peer::{self, Peer, Subject};
use crate::engine::tools::Tools;
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeMap;
use whamm::{Destination, LibraryFile, Options, Source};

/// The tool that rewrites.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Rewriting,
    Existing,
    Handwritten,
}

impl Target {
    pub(super) const ALL: [Self; 3] = [Self::Rewriting, Self::Existing, Self::Handwritten];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Rewriting => "rewriting",
            Self::Existing => "existing",
            Self::Handwritten => "handwritten",
        }
    }
}

/// The amount of work of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Length {
    /// Half a second or more.
    Full,
    Brief,
    Least,
}

impl Length {
    /// The length of the runs beside the existing compiler's.
    pub(super) fn beside_existing(monitor: Monitor) -> Self {
        if monitor == Monitor::Imix { Self::Least } else { Self::Brief }
    }

    /// Whether a variant has such runs.
    pub(super) fn is_for(self, variant: &Variant) -> bool {
        match variant.target {
            Target::Rewriting => {
                self == Self::Full || self == Self::beside_existing(variant.monitor)
            }
            Target::Existing => self == Self::beside_existing(variant.monitor),
            Target::Handwritten => self == Self::Full,
        }
    }
}

/// The runs of a variant, and those of the program as it is in the same rounds, in nanoseconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    pub(super) with: Vec<u64>,
    pub(super) without: Vec<u64>,
}

/// A program with an inserted monitor.
#[derive(Debug)]
pub(super) struct Variant {
    pub(super) monitor: Monitor,
    pub(super) target: Target,
    subject: Subject,
    /// The CPU times of making it, in nanoseconds.
    pub(super) made: Vec<u64>,
    /// The bytes of the program, and of the program with the monitor.
    pub(super) sizes: [u64; 2],
    pub(super) runs: BTreeMap<(Peer, Length), Runs>,
    /// The report, which follows the program's output.
    report: BTreeMap<Length, Vec<u8>>,
    /// The reason why it does not run, if it is optional.
    pub(super) unable: Option<CorpusError>,
}

impl Variant {
    /// Inserts a monitor into a program, several times; `None` if the tool for that is missing or
    /// does not support it.
    pub(super) fn make(
        workshop: &Workshop,
        plain: &Subject,
        monitor: Monitor,
        target: Target,
        times: usize,
    ) -> Result<Option<Self>, CorpusError> {
        let module = workshop.folder.join(format!(
            "{}-{}-{}.wasm",
            plain.name,
            monitor.name(),
            target.name()
        ));
        let library = Subject::new("cache", workshop.cache.path.clone());
        let mut subject = Subject { module, ..plain.clone() };
        subject.beside.extend(monitor.needs_cache().then_some(library));
        let script = workshop.folder.join(monitor.name()).with_extension("mm");
        std::fs::write(&script, monitor.script())
            .map_err(CorpusError::io(script.display().to_string()))?;
        let mut variant = Self {
            monitor,
            target,
            subject,
            made: vec![],
            sizes: [0; 2],
            runs: BTreeMap::new(),
            report: BTreeMap::new(),
            unable: None,
        };
        match target {
            Target::Existing => {
                let Some(existing) = &workshop.existing else { return Ok(None) };
                variant.subject.environment.push(("TO_CONSOLE", "true"));
                variant.subject.beside.insert(0, Subject::new("whamm_core", existing.core.clone()));
                let library = monitor.needs_cache().then_some(&*workshop.cache.path);
                for _ in 0..times.div_ceil(8) {
                    match existing.instrument(
                        &script,
                        &plain.module,
                        library,
                        &variant.subject.module,
                    ) {
                        Ok(spent) => variant.made.push(spent),
                        Err(error) => variant.unable = Some(error),
                    }
                }
            }
            Target::Handwritten if monitor != Monitor::Hotness => return Ok(None),
            Target::Handwritten => variant.keep(&handwritten::rewrite(&read(plain)?)?)?,
            Target::Rewriting => {
                let program = read(plain)?;
                for _ in 0..times {
                    let begin = spent();
                    let output = instrument(workshop, monitor, &program)?;
                    variant.made.push(spent() - begin);
                    variant.keep(&output)?;
                }
            }
        }
        let size =
            |subject: &Subject| subject.module.metadata().map_or(0, |metadata| metadata.len());
        variant.sizes = [size(plain), size(&variant.subject)];
        Ok(Some(variant))
    }

    fn keep(&self, bytes: &[u8]) -> Result<(), CorpusError> {
        let path = &self.subject.module;
        std::fs::write(path, bytes).map_err(CorpusError::io(path.display().to_string()))
    }

    /// Compiles the variant and its baseline.
    pub(super) fn compile(&mut self, tools: &Tools) -> Result<(), CorpusError> {
        for engine in ENGINES {
            for subject in std::iter::once(&self.subject).chain(&self.subject.beside) {
                if self.unable.is_some() {
                    return Ok(());
                }
                if let Err(error) = peer::compile(tools, engine, subject) {
                    self.without(error)?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Continues without the variant, if it is optional.
    fn without(&mut self, error: CorpusError) -> Result<(), CorpusError> {
        if self.target != Target::Existing {
            return Err(error);
        }
        self.unable.get_or_insert(error);
        Ok(())
    }

    /// One run, beside a run of the program as it is with the expected output and its time.
    pub(super) fn run(
        &mut self,
        tools: &Tools,
        engine: Peer,
        length: Length,
        arguments: &[String],
        expected: &[u8],
        without: u64,
    ) -> Result<(), CorpusError> {
        if self.unable.is_some() {
            return Ok(());
        }
        let (figures, said) = match peer::run(
            tools,
            engine,
            &Subject { arguments: arguments.to_vec(), ..self.subject.clone() },
        ) {
            Ok(outcome) => outcome,
            Err(error) => return self.without(error),
        };
        let differs =
            CorpusError::Differs { program: self.subject.name, build: self.monitor.name() };
        let Some(report) = said.strip_prefix(expected) else { return self.without(differs) };
        if self.report.entry(length).or_insert_with(|| report.to_vec()) != report {
            return self.without(differs);
        }
        let runs = self.runs.entry((engine, length)).or_default();
        runs.with.push(figures.cpu);
        runs.without.push(without);
        Ok(())
    }
}

fn read(subject: &Subject) -> Result<Vec<u8>, CorpusError> {
    std::fs::read(&subject.module).map_err(CorpusError::io(subject.module.display().to_string()))
}

/// The product's compiler, as a library.
fn instrument(
    workshop: &Workshop,
    monitor: Monitor,
    program: &[u8],
) -> Result<Vec<u8>, CorpusError> {
    let script = Source::new(format!("{}.mm", monitor.name()), monitor.script());
    let library = LibraryFile {
        name: "cache".into(),
        module: "cache".into(),
        bytes: workshop.cache.bytes.clone(),
    };
    let libraries: Vec<LibraryFile> =
        monitor.needs_cache().then_some(library).into_iter().collect();
    let options = Options { destination: Destination::Console, ..Options::default() };
    let output = whamm::instrument(&[script], &libraries, program, &options);
    let failed = |said: whamm::Diagnostics| CorpusError::Failed {
        what: monitor.name().into(),
        said: said.to_string(),
    };
    Ok(output.map_err(failed)?.module)
}

/// The CPU time of this process.
fn spent() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
