// app: fac.wat
// Instructions that are newer than the numbering do not change it.
wasm:opcode:*:before / opname == "i32.mul" / { report var a: u32; a++; }
wasm:opcode:i32.mul:before { report var b: u32; b++; }
