//! What `tmax` found out about one machine, as a file that it writes and we read.
//!
//! ```toml
//! date = "2026-11-20T22:00:00Z"
//! granule = 32            # bytes that fetch was never seen to tear
//! tmax = 100              # ticks; the longest wait seen to fail with hot lines, plus one step; absent if none was found
//! failed_waits = [0, 100] # ticks; every wait that was seen to fail under any adversary
//!
//! [machine]
//! vendor = "AuthenticAMD"
//! family = 25
//! …
//! ```
//!
//! A calibration holds for the machine it was made on and for no other; [`Calibration::load`] refuses it elsewhere. Nothing in it is
//! used unless the user asks for it: the default granule is the documented one, and no wait is known to be safe.

use crate::granule::Granule;
use crate::os::cpu;
use crate::ticks::Ticks;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::Write;
use std::path::{Path, PathBuf};

/// What a calibration is valid for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The maker of the processor, as CPUID spells it.
    pub vendor: String,
    /// Its family.
    pub family: u32,
    /// Its model.
    pub model: u32,
    /// Its stepping.
    pub stepping: u32,
    /// Its microcode, or `unknown`.
    pub microcode: String,
    /// The hypervisor's signature, or `none`.
    pub hypervisor: String,
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
            microcode: cpu::microcode().unwrap_or_else(|| "unknown".to_owned()),
            hypervisor: cpu::hypervisor().unwrap_or_else(|| "none".to_owned()),
            kernel: cpu::kernel(),
        }
    }

    /// The first key in which `other` differs, with both values.
    fn difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        let keys = |m: &Self| {
            [
                ("vendor", m.vendor.clone()),
                ("family", m.family.to_string()),
                ("model", m.model.to_string()),
                ("stepping", m.stepping.to_string()),
                ("microcode", m.microcode.clone()),
                ("hypervisor", m.hypervisor.clone()),
                ("kernel", m.kernel.clone()),
            ]
        };
        let pairs = keys(self).into_iter().zip(keys(other));
        pairs.filter(|(a, b)| a != b).map(|((key, a), (_, b))| (key, a, b)).next()
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { vendor, family, model, stepping, microcode, hypervisor, kernel } = self;
        write!(f, "{vendor} family {family} model {model} stepping {stepping}, microcode {microcode}, ")?;
        write!(f, "hypervisor {hypervisor}, Linux {kernel}")
    }
}

/// What was found out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calibration {
    /// When, as RFC 3339 writes it.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// The largest block that fetch was never seen to tear.
    pub granule: Granule,
    /// The literature's T_max: the shortest wait from which on no failure was seen with hot lines. Not a proof of anything.
    pub tmax: Option<Ticks>,
    /// Every wait that was seen to fail, under whatever adversary.
    pub failed_waits: Vec<Ticks>,
}

/// The file, before its numbers are checked.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    date: String,
    granule: usize,
    tmax: Option<u64>,
    failed_waits: Vec<u64>,
    machine: Machine,
}

/// Why a calibration cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CalibrationError {
    /// There is no home directory to look in.
    #[error("neither XDG_CONFIG_HOME nor HOME is set; name the file with WORDPATCH_CALIBRATION")]
    NoPath,
    /// The file cannot be read or written.
    #[error("{path}: {why}")]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        why: String,
    },
    /// The file is no calibration.
    #[error("{path} is damaged: {why}")]
    Damaged {
        /// Which.
        path: PathBuf,
        /// What is wrong, with the line.
        why: String,
    },
    /// The calibration was made elsewhere.
    #[error("{path} was made on another machine and is ignored: its {key} is {found}, here it is {expected}")]
    Elsewhere {
        /// Which.
        path: PathBuf,
        /// In what the machines differ.
        key: &'static str,
        /// The value here.
        expected: String,
        /// The value there.
        found: String,
    },
}

impl Calibration {
    /// Where `tmax` puts it for this user.
    pub fn default_path() -> Option<PathBuf> {
        let set = |key| std::env::var_os(key).filter(|value| !value.is_empty()).map(PathBuf::from);
        let config = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
        config.map(|config| config.join("fastinst").join("tmax.toml"))
    }

    /// Reads a calibration of this machine.
    pub fn load(path: &Path) -> Result<Self, CalibrationError> {
        let text = std::fs::read_to_string(path).map_err(|error| failed(path, &error))?;
        let calibration = Self::parse(&text).map_err(|why| CalibrationError::Damaged { path: path.into(), why })?;
        match Machine::here().difference(&calibration.machine) {
            None => Ok(calibration),
            Some((key, expected, found)) => Err(CalibrationError::Elsewhere { path: path.into(), key, expected, found }),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        // The library's message names line and column, over several lines; ours is one.
        let one_line = |error: toml::de::Error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            format!("line {line}: {}", error.message().replace('\n', " "))
        };
        let file: File = toml::from_str(text).map_err(one_line)?;
        let granule = Granule::new(file.granule).filter(|&granule| granule != Granule::BYTE);
        Ok(Self {
            date: file.date,
            machine: file.machine,
            granule: granule.ok_or_else(|| format!("granule = {} is none of 8, 16, 32 and 64", file.granule))?,
            tmax: file.tmax.map(Ticks),
            failed_waits: file.failed_waits.into_iter().map(Ticks).collect(),
        })
    }

    /// Writes it, whole or not at all.
    pub fn save(&self, path: &Path) -> Result<(), CalibrationError> {
        let file = File {
            date: self.date.clone(),
            granule: self.granule.bytes(),
            tmax: self.tmax.map(|ticks| ticks.0),
            failed_waits: self.failed_waits.iter().map(|ticks| ticks.0).collect(),
            machine: self.machine.clone(),
        };
        let text = toml::to_string(&file).map_err(|error| failed(path, &std::io::Error::other(error)))?;
        replace_file(path, text.as_bytes()).map_err(|error| failed(path, &error))
    }
}

fn failed(path: &Path, error: &std::io::Error) -> CalibrationError {
    CalibrationError::File { path: path.into(), why: error.to_string() }
}

/// Puts `contents` where `path` is in one step: whoever reads it sees the file before or the file after.
fn replace_file(path: &Path, contents: &[u8]) -> std::io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(directory)?;
    let name = path.file_name().ok_or(std::io::ErrorKind::InvalidInput)?;
    let draft = directory.join(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    let written = std::fs::File::create_new(&draft).and_then(|mut file| {
        file.write_all(contents)?;
        file.sync_all()?;
        std::fs::rename(&draft, path)
    });
    if written.is_err() {
        // The draft is ours, and the error above is the one to tell.
        let _ = std::fs::remove_file(&draft);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Calibration {
        Calibration {
            date: "2026-11-20T22:00:00Z".to_owned(),
            machine: Machine::here(),
            granule: Granule::new(32).unwrap(),
            tmax: Some(Ticks(100)),
            failed_waits: vec![Ticks(0), Ticks(2500)],
        }
    }

    /// A directory of this test's own, removed when it is over.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("wordpatch-{name}-{}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_saved_is_loaded_and_nothing_else_is_left() {
        let scratch = Scratch::new("saved");
        let path = scratch.0.join("new").join("tmax.toml");
        for tmax in [Some(Ticks(100)), None] {
            let calibration = Calibration { tmax, ..example() };
            calibration.save(&path).unwrap();
            assert_eq!(Calibration::load(&path), Ok(calibration));
        }
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_calibration_from_elsewhere_is_refused_by_what_differs() {
        let scratch = Scratch::new("elsewhere");
        let path = scratch.0.join("tmax.toml");
        let machine = Machine { stepping: Machine::here().stepping + 1, ..Machine::here() };
        Calibration { machine, ..example() }.save(&path).unwrap();
        let error = Calibration::load(&path).unwrap_err();
        assert!(matches!(error, CalibrationError::Elsewhere { key: "stepping", .. }), "{error}");
    }

    #[test]
    fn a_file_that_cannot_be_read_or_written_is_named() {
        for error in [
            Calibration::load(Path::new("/nonexistent/tmax.toml")).unwrap_err(),
            example().save(Path::new("/proc/tmax.toml")).unwrap_err(),
        ] {
            assert!(matches!(error, CalibrationError::File { .. }) && error.to_string().contains("tmax.toml"), "{error}");
        }
    }

    #[test]
    fn damage_is_told_in_one_line_with_its_place() {
        let scratch = Scratch::new("damaged");
        let path = scratch.0.join("tmax.toml");
        example().save(&path).unwrap();
        let good = std::fs::read_to_string(&path).unwrap();
        for (from, to) in [("granule = 32", "granule = 33"), ("granule = 32", "granule = 1"), ("tmax = 100", "tmax = -1")] {
            std::fs::write(&path, good.replace(from, to)).unwrap();
            let message = Calibration::load(&path).unwrap_err().to_string();
            assert!(message.contains("is damaged") && !message.contains('\n'), "{message}");
        }
        for len in 0..good.len() {
            assert!(Calibration::parse(&good[..len]).is_err(), "cut off after {len} bytes");
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        arbtest::arbtest(|u| {
            let text: String = u.arbitrary()?;
            let _ = Calibration::parse(&text);
            Ok(())
        });
    }
}
