wasm:opcode:call:before { foo = 1; }
wasm:opcode:call:before / pcc > 3 / { var x: i32 = 1 + true; y++; }
