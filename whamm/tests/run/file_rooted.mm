// app: exit.wat
// option: rooted-file
report var calls: u32;
wasm:opcode:*call*:before { calls++; }
