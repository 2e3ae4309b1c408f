// Values that are no instruction's.
wasm:opcode:i32.const:alt { return "text"; }
wasm:opcode:call:alt { return (1, "text"); }
wasm:opcode:call:before { return 1; }
wasm:opcode:br:before { var i: i32; return i; }
wasm:report { return missing; }
