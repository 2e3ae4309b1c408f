// app: wide.wat
wasm:opcode:*store*:before { report var at: u32; at = effective_addr; }
