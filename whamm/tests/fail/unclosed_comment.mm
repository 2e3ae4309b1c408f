wasm:opcode:call:before { /* /* */ }
