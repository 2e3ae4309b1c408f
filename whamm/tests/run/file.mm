// app: exit.wat
// option: file
report var calls: u32;
wasm:opcode:*call*:before { calls++; }
