// app: control.wat
// changes what the program gives
wasm:opcode:call:alt / target_fn_name == "out" / { drop_args(); alt_call_by_name("out"); }
wasm:opcode:call_indirect(arg0: i32):alt / arg0 == 2 / { drop_args(); alt_call_by_id(1); }
wasm:opcode:i32.div_s:before { arg1 = 70; }
wasm:opcode:i32.div_s:after { res0 = res0 + 1000; }
wasm:opcode:memory.fill:alt { drop_args(); }
