// app: fac.wat
wasm:opcode:*:before { report var count: u32; count++; }
