// app: replaced.wat
wasm:opcode:i64.const:alt / imm0 == 9 / { var n: i32; return n; }
wasm:opcode:call:alt / target_fn_name == "pair" / { return 1; }
wasm:opcode:i32.trunc_f32_s(arg0: f32):alt { if (arg0 > 3.0) { return 1; } }
wasm:opcode:call:alt / target_fn_name == "one" / { var n: i32; alt_call_by_id(n); }
wasm:opcode:call:alt / target_fn_name == "sum" / { alt_call_by_name("nobody"); }
wasm:opcode:call:alt / target_fn_name == "keep" / { alt_call_by_name("sum"); }
wasm:opcode:i32.eqz:alt { drop_args(); }
wasm:opcode:i32.mul:alt { return pc as u64; }
