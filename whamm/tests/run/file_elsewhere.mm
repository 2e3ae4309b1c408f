// app: exit.wat
// option: elsewhere
report var calls: u32;
wasm:opcode:*call*:before { calls++; }
