// app: exit.wat
// option: env
report var calls: u32;
wasm:opcode:*call*:before { calls++; }
