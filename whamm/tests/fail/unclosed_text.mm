wasm:opcode:call:before { var s: str = "no end; }
