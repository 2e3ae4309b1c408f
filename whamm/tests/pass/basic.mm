report var calls: i32;
wasm:opcode:call:before { calls++; }
