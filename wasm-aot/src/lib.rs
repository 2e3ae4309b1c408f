//! An ahead-of-time WebAssembly engine whose machine code carries probe sites.
