//! The target of compilation: the CPU, and the options that change the code.

use super::budget::Budget;
use crate::error::CompileError;
use crate::features::Features;
use cranelift_codegen::isa::{self, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Optimisation level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Optimize {
    /// Compile quickly.
    None,
    /// Run quickly.
    #[default]
    Speed,
    /// Run quickly, and be small.
    SpeedAndSize,
}

/// Where probes can be switched on while the program runs. Sites cost next to nothing while they
/// are off. Several are joined by `|`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sites(u8);

impl Sites {
    /// Nowhere.
    pub const NONE: Self = Self(0);
    /// Where functions begin.
    pub const FUNCTIONS: Self = Self(1);
    /// At function entries, and at loops, where threads change variants with the next iteration.
    /// The default.
    pub const LOOPS: Self = Self(Self::FUNCTIONS.0 | Self::LOOP.0);
    /// There, and before calls: a counter of a place is switched on by one byte.
    pub const CALLS: Self = Self(Self::LOOPS.0 | Self::CALL.0);
    /// There, and before branches.
    pub const BRANCHES: Self = Self(Self::LOOPS.0 | Self::BRANCH.0);
    /// There, and before accesses to memory.
    pub const MEMORY: Self = Self(Self::LOOPS.0 | Self::ACCESS.0);
    /// There, and before every instruction.
    pub const ALL: Self = Self(Self::LOOPS.0 | Self::EVERYTHING.0);

    const LOOP: Self = Self(2);
    pub(super) const CALL: Self = Self(4);
    pub(super) const BRANCH: Self = Self(8);
    pub(super) const ACCESS: Self = Self(16);
    pub(super) const EVERYTHING: Self = Self(32);

    /// Whether all places of `other` are among them.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// How many bytes there are before a function: an instruction that its first byte turns into a
    /// jump.
    pub fn prefix(self) -> u32 {
        if self == Self::NONE { 0 } else { 5 }
    }
}

impl Default for Sites {
    fn default() -> Self {
        Self::LOOPS
    }
}

impl std::ops::BitOr for Sites {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The CPUs that the code is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cpu {
    /// This CPU, with all its features.
    #[default]
    Native,
    /// Those of x86-64-v2: SSE4.2 and POPCNT.
    V2,
    /// Those of x86-64-v3: AVX2, BMI2, FMA.
    V3,
    /// Those of x86-64-v4: AVX-512.
    V4,
}

impl Cpu {
    /// Which processor features code generation may use, beside the baseline's.
    fn settings(self) -> &'static [&'static str] {
        match self {
            Self::Native => &[],
            Self::V2 => &["x86-64-v2"],
            Self::V3 => &["x86-64-v3", "has_avx"],
            Self::V4 => &["x86-64-v4", "has_avx"],
        }
    }

    fn builder(self) -> Result<isa::Builder, CompileError> {
        let target = |error: &dyn std::fmt::Display| CompileError::Target(error.to_string());
        if self == Self::Native {
            return cranelift_native::builder().map_err(|error| target(&error));
        }
        let mut builder =
            isa::lookup_by_name("x86_64-unknown-linux-gnu").map_err(|error| target(&error))?;
        self.settings()
            .iter()
            .try_for_each(|name| builder.enable(name).map_err(|error| target(&error)))?;
        Ok(builder)
    }

    /// The features that this CPU lacks, if any.
    pub fn lacking(self) -> Option<String> {
        if self == Self::Native {
            return None;
        }
        let features =
            |cpu| Some(Target::new(Options { cpu, ..Options::default() }).ok()?.features());
        let (wanted, ours) = (features(self)?, features(Self::Native)?);
        wanted
            .split(',')
            .find(|feature| !ours.split(',').any(|our| our == *feature))
            .map(str::to_owned)
    }
}

/// The options that change the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Options {
    /// Optimisation level.
    pub optimize: Optimize,
    /// Whether speculation past bounds checks is prevented.
    pub spectre: bool,
    /// Whether 32-bit memories have reservations of their whole address space, so that no access is
    /// checked.
    pub reservations: bool,
    /// Which processors it is for.
    pub cpu: Cpu,
    /// Where probes can be switched on.
    pub sites: Sites,
    /// Whether the code counts how often everything is executed.
    pub counts: bool,
    /// Whether it also counts which functions calls through tables and references go to.
    pub targets: bool,
    /// Whether its frames can be read when a trap unwinds them.
    pub frames: bool,
    /// Whether it charges its instructions to a budget.
    pub budget: Budget,
    /// Which modules are valid.
    pub features: Features,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            optimize: Optimize::Speed,
            spectre: true,
            reservations: true,
            cpu: Cpu::default(),
            sites: Sites::default(),
            counts: false,
            targets: false,
            frames: false,
            budget: Budget::default(),
            features: Features::default(),
        }
    }
}

/// What is compiled for.
#[derive(Clone)]
pub struct Target {
    pub(crate) isa: Arc<dyn TargetIsa>,
    /// What was asked for.
    pub options: Options,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Target {
    /// What is compiled for with options.
    pub fn new(options: Options) -> Result<Self, CompileError> {
        let mut flags = settings::builder();
        let optimize = match options.optimize {
            Optimize::None => "none",
            Optimize::Speed => "speed",
            Optimize::SpeedAndSize => "speed_and_size",
        };
        let spectre = if options.spectre { "true" } else { "false" };
        for (name, value) in [
            ("opt_level", optimize),
            ("enable_heap_access_spectre_mitigation", spectre),
            ("enable_table_access_spectre_mitigation", spectre),
            // Backtraces and exceptions follow frame pointers.
            ("preserve_frame_pointers", "true"),
            ("unwind_info", "false"),
            // A large frame must not step over the guard page of a thread's stack.
            ("enable_probestack", "true"),
            ("probestack_strategy", "inline"),
            // Functions may give more results than there are registers.
            ("enable_multi_ret_implicit_sret", "true"),
            ("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }),
        ] {
            flags.set(name, value).map_err(|error| CompileError::Target(error.to_string()))?;
        }
        let isa = options
            .cpu
            .builder()?
            .finish(settings::Flags::new(flags))
            .map_err(|error| CompileError::Target(error.to_string()))?;
        Ok(Self { isa, options })
    }

    /// The processor's features that code may use, as a text that is equal only for equal features.
    pub(crate) fn features(&self) -> String {
        let mut enabled: Vec<String> = self
            .isa
            .isa_flags()
            .iter()
            .filter(|flag| flag.as_bool() == Some(true))
            .map(|flag| flag.name.to_owned())
            .collect();
        enabled.sort();
        enabled.join(",")
    }
}
