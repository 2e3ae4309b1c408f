//! Which modules are valid: a version of the specification, with proposals added or left out.

use serde::{Deserialize, Serialize};
use wasmparser::WasmFeatures;

/// A version of the specification.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Specification {
    /// WebAssembly 1.0.
    V1,
    /// WebAssembly 2.0.
    V2,
    /// WebAssembly 3.0, and threads, legacy exceptions and wide arithmetic. Garbage collection is
    /// limited to its types: there are no objects.
    #[default]
    Latest,
}

macro_rules! proposals {
    ($($(#[$doc:meta])* $name:ident = $feature:ident, $text:literal;)*) => {
        /// A proposal that can be left out or added.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Proposal { $($(#[$doc])* $name),* }

        impl Proposal {
            /// All proposals.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Its name on the command line.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text),* }
            }

            fn flag(self) -> WasmFeatures {
                match self { $(Self::$name => WasmFeatures::$feature),* }
            }
        }
    };
}

proposals! {
    /// Several results, and parameters of blocks.
    MultiValue = MULTI_VALUE, "multi-value";
    /// Filling and copying memories and tables.
    BulkMemory = BULK_MEMORY, "bulk-memory";
    /// References to functions and to host values.
    ReferenceTypes = REFERENCE_TYPES, "reference-types";
    /// Extending numbers by their sign.
    SignExtension = SIGN_EXTENSION, "sign-extension";
    /// Conversions that do not trap.
    SaturatingFloatToInt = SATURATING_FLOAT_TO_INT, "saturating-float-to-int";
    /// Vectors of 128 bits.
    Simd = SIMD, "simd";
    /// Vector instructions whose results may differ between processors.
    RelaxedSimd = RELAXED_SIMD, "relaxed-simd";
    /// Calls in place of the caller.
    TailCall = TAIL_CALL, "tail-call";
    /// Several memories.
    MultiMemory = MULTI_MEMORY, "multi-memory";
    /// Addresses of 64 bits.
    Memory64 = MEMORY64, "memory64";
    /// Arithmetic in constant expressions.
    ExtendedConst = EXTENDED_CONST, "extended-const";
    /// References to functions of one type.
    FunctionReferences = FUNCTION_REFERENCES, "function-references";
    /// Types of the garbage collection proposal.
    Gc = GC, "gc";
    /// Exceptions.
    Exceptions = EXCEPTIONS, "exceptions";
    /// Exceptions, in the encoding that preceded the standard's.
    LegacyExceptions = LEGACY_EXCEPTIONS, "legacy-exceptions";
    /// Shared memories and atomic instructions.
    Threads = THREADS, "threads";
    /// Arithmetic with 128 bits.
    WideArithmetic = WIDE_ARITHMETIC, "wide-arithmetic";
}

/// Which modules are valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Features(u64);

impl Default for Features {
    fn default() -> Self {
        Self::of(Specification::Latest)
    }
}

impl Features {
    pub(crate) fn of(specification: Specification) -> Self {
        let features = match specification {
            Specification::V1 => WasmFeatures::WASM1,
            Specification::V2 => WasmFeatures::WASM2,
            Specification::Latest => {
                let proposals = Proposal::ALL.iter().map(|proposal| proposal.flag());
                proposals.fold(WasmFeatures::WASM2 | WasmFeatures::GC_TYPES, WasmFeatures::union)
            }
        };
        Self(features.bits())
    }

    pub(crate) fn set(&mut self, proposal: Proposal, on: bool) {
        let mut features = self.flags();
        features.set(proposal.flag(), on);
        self.0 = features.bits();
    }

    pub(crate) fn flags(self) -> WasmFeatures {
        WasmFeatures::from_bits_truncate(self.0)
    }
}
