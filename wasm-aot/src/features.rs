//! Which proposals the engine has.

use wasmparser::WasmFeatures;

/// WebAssembly 3.0 without garbage collection, and what comes after it.
pub(crate) fn supported() -> WasmFeatures {
    WasmFeatures::WASM2
        | WasmFeatures::MULTI_MEMORY
        | WasmFeatures::MEMORY64
        | WasmFeatures::EXTENDED_CONST
        | WasmFeatures::TAIL_CALL
        | WasmFeatures::FUNCTION_REFERENCES
        | WasmFeatures::GC_TYPES
        | WasmFeatures::EXCEPTIONS
        | WasmFeatures::LEGACY_EXCEPTIONS
        | WasmFeatures::RELAXED_SIMD
        | WasmFeatures::THREADS
        | WasmFeatures::WIDE_ARITHMETIC
}
