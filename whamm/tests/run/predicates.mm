// app: fac.wat
wasm:opcode:i32.sub|i32.mul:before / (fid == 0 && arg0 == 1) || (opname == "i32.mul" && pc > 3) / { report var n: i32; n++; }
wasm:opcode:*:before / category_name == "control" && at_func_end / { report var n: i32; n++; }
wasm:opcode:local.get:before / imm0 == 0 && fname.contains("o") / { report var n: i32; n++; }
