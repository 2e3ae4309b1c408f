// app: traps.wat
// option: exact-traps
wasm:opcode:*:before { report var n: i32; n++; }
