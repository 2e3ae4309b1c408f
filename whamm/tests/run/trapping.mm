// app: traps.wat
wasm:opcode:*:before { report var n: i32; n++; }
