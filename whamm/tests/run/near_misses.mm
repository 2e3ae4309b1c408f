// app: control.wat
// Rules that match nothing are told what comes near.
report var n: i32;
wasm:opcode:i32.mul:before { n++; }
wasm:opcode:v128.load:before { n++; }
wasm:opcode:call:before / fid == 99 / { n++; }
wasm:opcode:call(arg0: f32):before { n++; }
wasm:func:entry / fname == "nobody" / { n++; }
wasm:opcode:memory.grow:before / pc == 0 / { n++; }
