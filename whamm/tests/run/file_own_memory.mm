// app: bare.wat
// option: rooted-file
report var calls: u32;
wasm:opcode:*:before { calls++; }
