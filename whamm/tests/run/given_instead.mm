// app: replaced.wat
// What the body of an `alt` returns is what the instruction would give; operands go if they are asked for, dropped, or if all is returned.
report var seen: i32;
wasm:opcode:i32.const:alt / imm0 == 8 / { return 1; }
wasm:opcode:i64.const:alt / imm0 == 9 / { return 2; }
wasm:opcode:f32.const:alt { return 3; }
wasm:opcode:f64.const:alt { return 1.5; }
wasm:opcode:call(arg0: i32, arg1: i32):alt / target_fn_name == "sum" && arg1 == 0 / { seen = arg0; return arg0 * 100; }
wasm:opcode:call(arg0: i32):alt / target_fn_name == "pair" && arg0 == 6 / { return (arg0 + 1, arg0 as i64 + 2); }
wasm:opcode:call:alt / target_fn_name == "keep" / { seen++; }
wasm:opcode:call(arg1: i32):alt / target_fn_name == "note" / { seen += arg1; }
wasm:opcode:i32.eqz:alt { if (pc > 0) { return 5; } else { return 6; } }
wasm:opcode:i32.mul(arg0: i32):alt { seen += arg0; }
wasm:opcode:call:alt / target_fn_name == "one" / { alt_call_by_name("nothing"); return 0xFFFFFFFF; }
wasm:opcode:else:alt { return 77; }
wasm:opcode:block:alt / fname == "blocks" / { return 11; }
wasm:opcode:if:alt / fname == "choice" / { drop_args(); return (12, 13); }
wasm:opcode:loop:alt { seen += 1000; }
wasm:opcode:br_if(arg0: i32):alt / arg0 == 3 / { seen += 10000; }
wasm:opcode:return(local0: i32):alt / local0 == 4 / { seen += 100000; }
wasm:opcode:unreachable:alt { seen += 1000000; }
