//! The policy that the environment selects.
//!
//! | key | values | default |
//! |---|---|---|
//! | `WORDPATCH_BARRIER` | `membarrier`, `signal`, `wait` (T_max as calibrated), `wait:TICKS` | the best there is |
//! | `WORDPATCH_GRANULE` | `8`, `16`, `32`, `64`, `calibrated` | `8` |
//! | `WORDPATCH_ACCESS` | `rwx`, `rwx-lazy`, `batch`, `procmem` | `rwx` |
//! | `WORDPATCH_CALIBRATION` | the file that `tmax` wrote | the path that `tmax` writes |

use crate::access::Access;
use crate::barrier::{Barrier, BarrierError};
use crate::calibration::{Calibration, CalibrationError};
use crate::granule::Granule;
use crate::os;
use crate::policy::Policy;
use crate::ticks::Ticks;
use crate::vendor::FetchOrder;
use std::path::PathBuf;

/// The environment's settings, parsed and checked, but not yet tried on this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    barrier: Option<BarrierChoice>,
    granule: Option<GranuleChoice>,
    access: Access,
    calibration: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BarrierChoice {
    Exactly(Barrier),
    CalibratedWait,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GranuleChoice {
    Exactly(Granule),
    Calibrated,
}

/// Why the environment's settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// An unknown key with the crate's prefix.
    #[error(
        "environment: {key} is not known; known are WORDPATCH_BARRIER, _GRANULE, _ACCESS and _CALIBRATION"
    )]
    UnknownKey {
        /// The key.
        key: String,
    },
    /// A key with an invalid value.
    #[error("environment: {key}={value} is not understood; it takes {takes}")]
    Value {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// The values that it takes.
        takes: &'static str,
    },
    /// A calibrated value was requested, and there is no calibration.
    #[error("{wants} needs a calibration of this machine: run tmax ({why})")]
    Uncalibrated {
        /// The key and value.
        wants: &'static str,
        /// The reason.
        why: CalibrationError,
    },
    /// The calibration lacks the value.
    #[error(
        "{wants}: the calibration of this machine found no T_max; give ticks as wait:TICKS, or use membarrier"
    )]
    NoTmax {
        /// The key and value.
        wants: &'static str,
    },
    /// No barrier works here.
    #[error("{0}")]
    Barrier(#[from] BarrierError),
}

impl Config {
    /// Reads the keys that begin with `WORDPATCH_`. A privileged process (setuid) ignores the
    /// environment and gets the defaults.
    pub fn from_env() -> Result<Self, ConfigError> {
        if os::is_privileged() {
            return Ok(Self::default());
        }
        let ours = std::env::vars_os().filter_map(|(key, value)| {
            let key = key.into_string().ok().filter(|key| key.starts_with("WORDPATCH_"))?;
            Some((key, value.to_string_lossy().into_owned()))
        });
        Self::from_pairs(ours)
    }

    fn from_pairs(pairs: impl Iterator<Item = (String, String)>) -> Result<Self, ConfigError> {
        let mut config = Self::default();
        for (key, value) in pairs {
            match key.as_str() {
                "WORDPATCH_BARRIER" => config.barrier = Some(BarrierChoice::parse(value)?),
                "WORDPATCH_GRANULE" => config.granule = Some(GranuleChoice::parse(value)?),
                "WORDPATCH_ACCESS" => config.access = parse_access(value)?,
                "WORDPATCH_CALIBRATION" => config.calibration = Some(value.into()),
                _ => return Err(ConfigError::UnknownKey { key }),
            }
        }
        Ok(config)
    }

    /// The corresponding policy on this machine.
    pub fn policy(&self) -> Result<Policy, ConfigError> {
        let granule = match self.granule {
            None => Granule::default(),
            Some(GranuleChoice::Exactly(granule)) => granule,
            Some(GranuleChoice::Calibrated) => self.calibrated_granule()?,
        };
        let barrier = match self.barrier {
            None => Barrier::best()?,
            Some(BarrierChoice::Exactly(barrier)) => barrier,
            Some(BarrierChoice::CalibratedWait) => {
                let wants = "WORDPATCH_BARRIER=wait";
                Barrier::Wait(self.calibration(wants)?.tmax.ok_or(ConfigError::NoTmax { wants })?)
            }
        };
        barrier.prepare()?;
        // A wait is the literature's protocol, which waits twice.
        let waits = matches!(barrier, Barrier::Wait(_));
        let order = if waits { FetchOrder::Any } else { FetchOrder::of_this_processor() };
        Ok(Policy { granule, order, barrier, access: self.access })
    }

    /// The granule of the calibration. If that was made on another machine, the default, with a
    /// warning of one line.
    fn calibrated_granule(&self) -> Result<Granule, ConfigError> {
        match self.calibration("WORDPATCH_GRANULE=calibrated") {
            Ok(calibration) => Ok(calibration.granule),
            Err(ConfigError::Uncalibrated {
                why: why @ CalibrationError::OtherMachine { .. },
                ..
            }) => {
                eprintln!("wordpatch: {why}; using the default granule");
                Ok(Granule::default())
            }
            Err(error) => Err(error),
        }
    }

    fn calibration(&self, wants: &'static str) -> Result<Calibration, ConfigError> {
        let path = self.calibration.clone().or_else(Calibration::default_path);
        let loaded =
            path.map_or_else(|| Err(CalibrationError::NoPath), |path| Calibration::load(&path));
        loaded.map_err(|why| ConfigError::Uncalibrated { wants, why })
    }
}

impl BarrierChoice {
    fn parse(value: String) -> Result<Self, ConfigError> {
        let ticks = value.strip_prefix("wait:").and_then(|ticks| ticks.parse().ok());
        match (value.as_str(), ticks) {
            ("membarrier", _) => Ok(Self::Exactly(Barrier::Membarrier)),
            ("signal", _) => Ok(Self::Exactly(Barrier::Signal)),
            ("wait", _) => Ok(Self::CalibratedWait),
            (_, Some(ticks)) => Ok(Self::Exactly(Barrier::Wait(Ticks(ticks)))),
            _ => {
                let takes = "membarrier, signal, wait or wait:TICKS";
                Err(ConfigError::Value { key: "WORDPATCH_BARRIER", value, takes })
            }
        }
    }
}

impl GranuleChoice {
    fn parse(value: String) -> Result<Self, ConfigError> {
        // A granule of one byte is forced by /proc/self/mem; it is no user's choice.
        let exact = value.parse().ok().filter(|&bytes| bytes != 1).and_then(Granule::new);
        match (value.as_str(), exact) {
            ("calibrated", _) => Ok(Self::Calibrated),
            (_, Some(granule)) => Ok(Self::Exactly(granule)),
            _ => Err(ConfigError::Value {
                key: "WORDPATCH_GRANULE",
                value,
                takes: "8, 16, 32, 64 or calibrated",
            }),
        }
    }
}

fn parse_access(value: String) -> Result<Access, ConfigError> {
    let takes = "rwx, rwx-lazy, batch or procmem";
    value.parse().map_err(|()| ConfigError::Value { key: "WORDPATCH_ACCESS", value, takes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calibration::Machine;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_pairs(
            pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())),
        )
    }

    #[test]
    fn an_empty_environment_asks_for_the_defaults() {
        let policy = read(&[]).unwrap().policy().unwrap();
        assert_eq!(policy, Policy::new().unwrap());
    }

    #[test]
    fn every_key_is_followed() {
        let keys = [
            ("WORDPATCH_BARRIER", "wait:3000"),
            ("WORDPATCH_GRANULE", "64"),
            ("WORDPATCH_ACCESS", "batch"),
        ];
        let policy = read(&keys).unwrap().policy().unwrap();
        let expected = Policy {
            granule: Granule::LINE,
            order: FetchOrder::Any,
            barrier: Barrier::Wait(Ticks(3000)),
            access: Access::Batch,
        };
        assert_eq!(policy, expected);
    }

    #[test]
    fn what_is_not_understood_is_named_with_what_would_be() {
        for (key, value, named) in [
            ("WORDPATCH_BARRIER", "wait:soon", "wait:TICKS"),
            ("WORDPATCH_GRANULE", "1", "calibrated"),
            ("WORDPATCH_GRANULE", "12", "calibrated"),
            ("WORDPATCH_ACCESS", "rw", "procmem"),
            ("WORDPATCH_ACESS", "rwx", "WORDPATCH_ACESS is not known"),
        ] {
            let message = read(&[(key, value)]).unwrap_err().to_string();
            assert!(message.contains(named) && message.contains(key), "{message}");
        }
    }

    #[test]
    fn a_calibration_of_another_machine_is_ignored_for_the_granule_and_refused_for_the_wait() {
        let path =
            std::env::temp_dir().join(format!("wordpatch-config-{}.toml", std::process::id()));
        let elsewhere = Machine { kernel: "0.01".to_owned(), ..Machine::here() };
        let granule = Granule::new(32).unwrap();
        let (date, tmax, failed) =
            ("2026-01-01T00:00:00Z".to_owned(), Some(Ticks(100)), Vec::new());
        let calibration = Calibration {
            machine: elsewhere,
            date,
            granule,
            granule_toggles: Calibration::ENOUGH_TOGGLES,
            tmax,
            failed,
        };
        calibration.save(&path).unwrap();
        let file = ("WORDPATCH_CALIBRATION", path.to_str().unwrap());
        let policy = read(&[("WORDPATCH_GRANULE", "calibrated"), file]).unwrap().policy().unwrap();
        assert_eq!(policy.granule, Granule::default());
        let refused = read(&[("WORDPATCH_BARRIER", "wait"), file]).unwrap().policy();
        assert!(matches!(refused, Err(ConfigError::Uncalibrated { .. })), "{refused:?}");
        calibration_of_this_machine_is_used(calibration, file);
        std::fs::remove_file(path).unwrap();
    }

    fn calibration_of_this_machine_is_used(calibration: Calibration, file: (&str, &str)) {
        Calibration { machine: Machine::here(), ..calibration }
            .save(std::path::Path::new(file.1))
            .unwrap();
        let keys = [("WORDPATCH_GRANULE", "calibrated"), ("WORDPATCH_BARRIER", "wait"), file];
        let policy = read(&keys).unwrap().policy().unwrap();
        assert_eq!((policy.granule.bytes(), policy.barrier), (32, Barrier::Wait(Ticks(100))));
    }

    #[test]
    fn a_calibrated_wait_without_a_calibration_says_what_to_run() {
        let keys =
            [("WORDPATCH_BARRIER", "wait"), ("WORDPATCH_CALIBRATION", "/nonexistent/tmax.toml")];
        let message = read(&keys).unwrap().policy().unwrap_err().to_string();
        assert!(
            message.contains("run tmax") && message.contains("/nonexistent/tmax.toml"),
            "{message}"
        );
    }
}
