// app: fac.wat
wasm:opcode:f64.add:before { report var n: i32; n++; }
