//! What is compiled for: this processor, and the options that change the code.

use crate::error::CompileError;
use crate::features::Features;
use cranelift_codegen::isa::TargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// How hard to try.
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

/// Where probes can be switched on while the program runs. The places cost next to nothing while they are off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Sites {
    /// Nowhere.
    None,
    /// Where functions begin.
    Functions,
    /// Where functions begin, and at loops: what is in a loop is reached with its next turn.
    #[default]
    Loops,
}

impl Sites {
    /// How many bytes there are before a function: an instruction that becomes a jump elsewhere by its first byte.
    pub(crate) fn prefix(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Functions | Self::Loops => 5,
        }
    }
}

/// The options that change the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Options {
    /// How hard to try.
    pub optimize: Optimize,
    /// Whether speculation past bounds checks is prevented.
    pub spectre: bool,
    /// Whether 32-bit memories have reservations of their whole address space, so that no access is checked.
    pub reservations: bool,
    /// Where probes can be switched on.
    pub sites: Sites,
    /// Whether the code counts how often everything is executed.
    pub counts: bool,
    /// Whether it also counts which functions calls through tables and references go to.
    pub targets: bool,
    /// Which modules are valid.
    pub(crate) features: Features,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            optimize: Optimize::Speed,
            spectre: true,
            reservations: true,
            sites: Sites::default(),
            counts: false,
            targets: false,
            features: Features::default(),
        }
    }
}

/// What is compiled for.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) isa: Arc<dyn TargetIsa>,
    pub(crate) options: Options,
}

impl std::fmt::Debug for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Target").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Target {
    /// This processor.
    pub(crate) fn native(options: Options) -> Result<Self, CompileError> {
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
        let isa = cranelift_native::builder()
            .map_err(|error| CompileError::Target(error.to_owned()))?
            .finish(settings::Flags::new(flags))
            .map_err(|error| CompileError::Target(error.to_string()))?;
        Ok(Self { isa, options })
    }

    /// The processor's features that code may use, as a text that is equal only for equal features.
    pub(crate) fn features(&self) -> String {
        let mut enabled: Vec<String> =
            self.isa.isa_flags().iter().filter(|flag| flag.as_bool() == Some(true)).map(|flag| flag.name.to_owned()).collect();
        enabled.sort();
        enabled.join(",")
    }
}
