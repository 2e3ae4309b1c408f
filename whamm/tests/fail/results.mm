// Results are known only behind instructions.
wasm:opcode:i32.const:alt { return res0; }
wasm:opcode:call(res0: i32):before { }
wasm:opcode:memory.grow:before / failed / { }
wasm:opcode:call(res0: i32):after { report var last: i32 = 0; last = res0; }
wasm:opcode:call:* { report var n: i32; n += res0; }
wasm:opcode:call(res0: i32):* { report var n: i32; n += res0; }
wasm:opcode:call(res0: i32):alt { drop_args(); }
wasm:opcode:call(res0: i32):alt { return 1; }
wasm:opcode:br_if(arg0: i64):alt { return 1; }
