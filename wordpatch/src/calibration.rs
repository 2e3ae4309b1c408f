//! The calibration file: the results of `tmax` on one machine.
//!
//! ```toml
//! format = 1
//! date = "2026-11-20T22:40:00Z"
//!
//! [machine]               # a calibration is valid on this one only
//! vendor = "AuthenticAMD"
//! # family, model, stepping, microcode, hypervisor, kernel
//!
//! [granule]
//! bytes = 16
//! toggles = 250000        # how often a store within it was tried and not seen torn, at the offset
//!                         # tried least; a file with fewer than 20000 is refused
//!
//! [tmax]
//! hot = 100               # absent if the longest wait failed
//!
//! [[tmax.failed]]         # waits that were seen to fail
//! case = "cold"
//! wait = 2000
//! torn = 3
//! toggles = 120000
//! ```
//!
//! None of it is used unless the user enables it: the granule of eight bytes and the barrier need
//! no measurement.

use crate::granule::Granule;
use crate::os::{self, cpu, replace::Replacement, trust};
use crate::ticks::Ticks;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The results of `tmax` on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// The machine.
    pub machine: Machine,
    /// The time, in the format of RFC 3339.
    pub date: String,
    /// The largest block within which no torn store was observed.
    pub granule: Granule,
    /// The number of toggles behind that result, at the offset with the fewest: a rate below three
    /// in this number is not excluded.
    pub granule_toggles: u64,
    /// The literature's T_max: the shortest wait such that neither it nor any longer one tore a
    /// toggle of hot lines. A tear may still happen; `None` if the longest wait failed.
    pub tmax: Option<Ticks>,
    /// The waits that failed.
    pub failed: Vec<FailedWait>,
}

/// A wait that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailedWait {
    /// The circumstances.
    pub case: String,
    /// The length of the wait, in ticks.
    pub wait: u64,
    /// The number of toggles in which torn bytes were executed.
    pub torn: u64,
    /// The number of toggles.
    pub toggles: u64,
}

/// The properties of a machine that a calibration depends on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The processor's maker.
    pub vendor: String,
    /// The processor's family.
    pub family: u32,
    /// Its model.
    pub model: u32,
    /// Its stepping.
    pub stepping: u32,
    /// The revision of its microcode, as the kernel prints it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub microcode: Option<String>,
    /// The hypervisor, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hypervisor: Option<String>,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This machine.
    pub fn here() -> Self {
        let (family, model, stepping) = cpu::signature();
        Self {
            vendor: String::from_utf8_lossy(&cpu::vendor_id()).into_owned(),
            family,
            model,
            stepping,
            microcode: cpu::microcode(),
            hypervisor: cpu::hypervisor(),
            kernel: cpu::kernel(),
        }
    }

    /// Its properties, by name.
    fn keys(&self) -> [(&'static str, String); 7] {
        let or_none = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".to_owned());
        [
            ("vendor", self.vendor.clone()),
            ("family", self.family.to_string()),
            ("model", self.model.to_string()),
            ("stepping", self.stepping.to_string()),
            ("microcode", or_none(&self.microcode)),
            ("hypervisor", or_none(&self.hypervisor)),
            ("kernel", self.kernel.clone()),
        ]
    }

    /// The first property in which `other` differs: its name, its value here, its value in `other`.
    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let pairs = self.keys().into_iter().zip(other.keys());
        pairs
            .into_iter()
            .find(|(here, there)| here != there)
            .map(|((key, here), (_, there))| (key, here, there))
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.keys().map(|(key, value)| format!("{key} {value}"));
        f.write_str(&words.join(", "))
    }
}

/// Why there is no calibration to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CalibrationError {
    /// Neither a configuration directory nor a home directory is known.
    #[error("no place for a calibration: neither XDG_CONFIG_HOME nor HOME is set")]
    NoPath,
    /// The file cannot be read or written.
    #[error("{}: {}", .path.display(), io::Error::from_raw_os_error(*.errno))]
    File {
        /// The file.
        path: PathBuf,
        /// The kernel's error number.
        errno: i32,
    },
    /// Another user may have written the file.
    #[error("{}: {why}; a calibration decides how code is stored to", .path.display())]
    Untrusted {
        /// The file.
        path: PathBuf,
        /// The folder, or the reason.
        why: String,
    },
    /// The file is not a calibration.
    #[error("{}:{line}: {why}; run tmax again", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from one.
        line: usize,
        /// The reason.
        why: String,
    },
    /// The file was written on another machine, or before this machine's kernel or microcode was
    /// changed.
    #[error("{}: measured on another machine ({key} is {found}, here {expected}); run tmax again", .path.display())]
    OtherMachine {
        /// The file.
        path: PathBuf,
        /// The property that differs.
        key: &'static str,
        /// Its value on this machine.
        expected: String,
        /// Its value in the file.
        found: String,
    },
}

/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

impl Calibration {
    /// How often a store must be tried at each offset within a granule, while another thread
    /// demonstrably executes the bytes, before the granule counts as measured. Of the known tears,
    /// those at 32-byte boundaries are the rarest, 28 in a million (family 25, model 17). The seven
    /// offsets that such a boundary cuts are tried 140,000 times in all, which misses every tear in
    /// one of fifty runs.
    pub const ENOUGH_TOGGLES: u64 = 20_000;

    /// The path that `tmax` writes: `fastinst/tmax.toml` in `$XDG_CONFIG_HOME`, or in `~/.config`.
    /// `None` for a privileged process, whose environment another user may have set.
    pub fn default_path() -> Option<PathBuf> {
        if os::is_privileged() {
            return None;
        }
        // A relative path in XDG_CONFIG_HOME is to be ignored (XDG Base Directory Specification).
        let directory =
            |key| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
        let base =
            directory("XDG_CONFIG_HOME").or_else(|| Some(directory("HOME")?.join(".config")))?;
        Some(base.join("fastinst").join("tmax.toml"))
    }

    /// Reads `path`, and checks that it was written on this machine.
    pub fn load(path: &Path) -> Result<Self, CalibrationError> {
        let mut contents = Vec::new();
        // Its contents decide how code is stored to, so another user must not be able to write it.
        let file = trust::open(path).map_err(|error| match error.raw_os_error() {
            None if error.kind() == io::ErrorKind::PermissionDenied => {
                CalibrationError::Untrusted { path: path.to_owned(), why: error.to_string() }
            }
            _ => at(path, &error),
        })?;
        file.take(LARGEST).read_to_end(&mut contents).map_err(|error| at(path, &error))?;
        let calibration = Self::parse(&contents).map_err(|Flaw { line, why }| {
            CalibrationError::Damaged { path: path.to_owned(), line, why }
        })?;
        match Machine::here().difference(&calibration.machine) {
            None => Ok(calibration),
            Some((key, expected, found)) => {
                Err(CalibrationError::OtherMachine { path: path.to_owned(), key, expected, found })
            }
        }
    }

    /// Writes it to `path`, as a whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), CalibrationError> {
        let replaced = Replacement::begin(path)
            .and_then(|replacement| replacement.finish(self.to_toml().as_bytes()));
        replaced.map_err(|error| at(path, &error))
    }

    /// The contents of the file.
    pub fn to_toml(&self) -> String {
        let layout = Layout {
            format: FORMAT,
            date: self.date.clone(),
            machine: self.machine.clone(),
            granule: GranuleTable { bytes: self.granule.bytes(), toggles: self.granule_toggles },
            tmax: TmaxTable {
                hot: self.tmax.map(|Ticks(ticks)| ticks),
                failed: self.failed.clone(),
            },
        };
        // Strings and numbers below 2⁶³ always have a TOML form: see the test.
        let body = toml::to_string(&layout).unwrap_or_default();
        format!(
            "# What tmax measured on this machine. It is used only where it is asked for.\n{body}"
        )
    }

    fn parse(contents: &[u8]) -> Result<Self, Flaw> {
        let line_of = |at: usize| {
            1 + contents[..at.min(contents.len())].iter().filter(|&&b| b == b'\n').count()
        };
        if contents.len() as u64 == LARGEST {
            return Err(Flaw { line: 1, why: "larger than any calibration".to_owned() });
        }
        let text = std::str::from_utf8(contents).map_err(|error| Flaw {
            line: line_of(error.valid_up_to()),
            why: "not UTF-8".to_owned(),
        })?;
        let Layout { format, date, machine, granule, tmax } =
            toml::from_str(text).map_err(|error| {
                let line = line_of(error.span().map_or(0, |span| span.start));
                Flaw { line, why: error.message().replace('\n', ", ") }
            })?;
        let flaw = |key: &str, why: String| {
            let line = text
                .lines()
                .position(|line| line.trim_start().starts_with(key))
                .map_or(1, |line| line + 1);
            Err(Flaw { line, why })
        };
        if format != FORMAT {
            return flaw("format", format!("format {format} is not known, only {FORMAT} is"));
        }
        let Some(measured) = Granule::new(granule.bytes) else {
            return flaw("bytes", format!("a granule of {} bytes does not exist", granule.bytes));
        };
        // A granule of one byte needs no evidence.
        if measured > Granule::BYTE && granule.toggles < Self::ENOUGH_TOGGLES {
            let GranuleTable { bytes, toggles } = granule;
            let needed = Self::ENOUGH_TOGGLES;
            return flaw(
                "toggles",
                format!(
                    "a granule of {bytes} bytes rests on {toggles} toggles, needed are {needed}"
                ),
            );
        }
        Ok(Self {
            machine,
            date,
            granule: measured,
            granule_toggles: granule.toggles,
            tmax: tmax.hot.map(Ticks),
            failed: tmax.failed,
        })
    }
}

fn at(path: &Path, error: &io::Error) -> CalibrationError {
    let errno = error.raw_os_error().unwrap_or(match error.kind() {
        io::ErrorKind::IsADirectory => libc::EISDIR,
        io::ErrorKind::InvalidFilename | io::ErrorKind::InvalidInput => libc::EINVAL,
        _ => libc::EIO,
    });
    CalibrationError::File { path: path.to_owned(), errno }
}

/// The first error in a file: its line, and the reason.
struct Flaw {
    line: usize,
    why: String,
}

const FORMAT: u32 = 1;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layout {
    format: u32,
    date: String,
    machine: Machine,
    granule: GranuleTable,
    tmax: TmaxTable,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct GranuleTable {
    bytes: usize,
    toggles: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TmaxTable {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hot: Option<u64>,
    #[serde(default)]
    failed: Vec<FailedWait>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Calibration {
        Calibration {
            machine: Machine::here(),
            date: "2026-11-20T22:40:00Z".to_owned(),
            granule: Granule::new(16).unwrap(),
            granule_toggles: 250_000,
            tmax: Some(Ticks(100)),
            failed: vec![FailedWait {
                case: "cold".to_owned(),
                wait: 2000,
                torn: 3,
                toggles: 120_000,
            }],
        }
    }

    /// A file that is removed at the end of the test.
    struct Scratch(PathBuf);

    impl Scratch {
        fn with(name: &str, contents: &[u8]) -> Self {
            let path = std::env::temp_dir()
                .join(format!("wordpatch-calibration-{name}-{}", std::process::id()));
            std::fs::write(&path, contents).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    fn flaw(name: &str, contents: &[u8]) -> (usize, String) {
        let file = Scratch::with(name, contents);
        match Calibration::load(&file.0) {
            Err(CalibrationError::Damaged { path, line, why }) if path == file.0 => (line, why),
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn what_is_saved_is_loaded_again() {
        let none = Calibration { granule: Granule::BYTE, granule_toggles: 0, ..sample() };
        for calibration in
            [sample(), Calibration { tmax: None, failed: Vec::new(), ..sample() }, none]
        {
            let file = Scratch::with("saved", b"something else");
            calibration.save(&file.0).unwrap();
            assert_eq!(Calibration::load(&file.0), Ok(calibration));
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named_with_its_errno() {
        let path = std::env::temp_dir().join("wordpatch-no-such-calibration");
        let error = Calibration::load(&path).unwrap_err();
        assert_eq!(error, CalibrationError::File { path, errno: libc::ENOENT });
        assert!(error.to_string().contains("No such file"));
        let error = sample().save(Path::new("/nowhere/at/all")).unwrap_err();
        assert!(matches!(error, CalibrationError::File { errno: libc::ENOENT, .. }));
        assert!(matches!(
            Calibration::load(Path::new("/")),
            Err(CalibrationError::File { errno: libc::EISDIR, .. })
        ));
        assert!(matches!(sample().save(Path::new("/")), Err(CalibrationError::File { .. })));
    }

    #[test]
    fn a_file_that_others_may_exchange_is_refused_with_the_folder() {
        use std::os::unix::fs::PermissionsExt;
        let folder = trust::temporary_folder("wordpatch-calibration").unwrap();
        let path = folder.join("tmax.toml");
        sample().save(&path).unwrap();
        assert_eq!(Calibration::load(&path), Ok(sample()));
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o777)).unwrap();
        let error = Calibration::load(&path).unwrap_err();
        assert!(matches!(error, CalibrationError::Untrusted { .. }), "{error}");
        assert!(error.to_string().contains(folder.to_str().unwrap()), "{error}");
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_damaged_file_is_told_line_and_reason() {
        let whole = sample().to_toml();
        assert_eq!(flaw("empty", b"").1, "missing field `format`");
        assert_eq!(flaw("binary", b"format = 1\n\xff"), (2, "not UTF-8".to_owned()));
        assert_eq!(flaw("syntax", b"format = 1\ndate =\n").0, 2);
        let line = |key: &str| 1 + whole.lines().position(|l| l.starts_with(key)).unwrap();
        let future = whole.replace("format = 1", "format = 2");
        assert_eq!(
            flaw("future", future.as_bytes()),
            (line("format"), "format 2 is not known, only 1 is".to_owned())
        );
        let odd = whole.replace("bytes = 16", "bytes = 24");
        assert_eq!(
            flaw("odd", odd.as_bytes()),
            (line("bytes"), "a granule of 24 bytes does not exist".to_owned())
        );
        let unknown = whole.replace("toggles = 250000", "toggles = 250000\nwidth = 3");
        assert_eq!(flaw("unknown", unknown.as_bytes()).0, line("toggles") + 1);
        let negative = whole.replace("toggles = 250000", "toggles = -1");
        assert_eq!(flaw("negative", negative.as_bytes()).0, line("toggles"));
        let unseen = whole.replace("toggles = 250000", "toggles = 19999");
        let why = "a granule of 16 bytes rests on 19999 toggles, needed are 20000".to_owned();
        assert_eq!(flaw("unseen", unseen.as_bytes()), (line("toggles"), why));
        let vast = vec![b'#'; LARGEST as usize];
        assert_eq!(flaw("vast", &vast), (1, "larger than any calibration".to_owned()));
    }

    #[test]
    fn a_file_of_another_machine_is_told_what_differs() {
        type Change = fn(&mut Machine);
        let here = Machine::here();
        let changes: [(&str, Change); 7] = [
            ("vendor", |m| m.vendor = "Nobody".to_owned()),
            ("family", |m| m.family += 1),
            ("model", |m| m.model += 1),
            ("stepping", |m| m.stepping += 1),
            ("microcode", |m| m.microcode = Some("0x0".to_owned())),
            ("hypervisor", |m| m.hypervisor = Some("Nobody's".to_owned())),
            ("kernel", |m| m.kernel = "0.01".to_owned()),
        ];
        for (changed, change) in changes {
            let mut calibration = sample();
            change(&mut calibration.machine);
            let file = Scratch::with("other", calibration.to_toml().as_bytes());
            let Err(CalibrationError::OtherMachine { key, expected, found, .. }) =
                Calibration::load(&file.0)
            else {
                panic!("{changed} was not noticed")
            };
            assert_eq!(key, changed);
            let value =
                |machine: &Machine| machine.keys().into_iter().find(|(k, _)| *k == key).unwrap().1;
            assert_eq!((expected, found), (value(&here), value(&calibration.machine)));
        }
    }

    /// Parses arbitrary bytes: they are a calibration or an error.
    fn fuzz(bytes: &[u8]) {
        if let Ok(calibration) = Calibration::parse(bytes) {
            assert_eq!(
                Calibration::parse(calibration.to_toml().as_bytes()).ok(),
                Some(calibration)
            );
        }
    }

    #[test]
    fn random_files_and_random_changes_are_parsed_or_refused() {
        let whole = sample().to_toml().into_bytes();
        let mut state = 1u64;
        let mut random = |limit: usize| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % limit
        };
        for _ in 0..3_000 {
            let noise: Vec<u8> = (0..random(200)).map(|_| random(256) as u8).collect();
            fuzz(&noise);
            let mut changed = whole.clone();
            for _ in 0..=random(4) {
                let at = random(changed.len());
                match random(3) {
                    0 => changed[at] = random(256) as u8,
                    1 => drop(changed.remove(at)),
                    _ => changed.insert(at, b"[]\"'={}#\n."[random(10)]),
                }
            }
            fuzz(&changed);
        }
        fuzz(&b"[".repeat(100_000));
        fuzz(&[b"format = ".to_vec(), b"[".repeat(100_000)].concat());
    }
}
