// app: control.wat
wasm:opcode:call(arg0: i32):before { report var last: i32; last = arg0; }
wasm(local0: i32):opcode:local.set:before / local0 > 1 / { report var l: i32; l = local0; }
wasm:opcode:drop|select<T: numeric>(arg0: T):before { report var v: T; v = arg0 + 1; }
wasm:opcode:global.set(arg0: i64):before { report var v: i64; v = arg0; }
wasm:opcode:*.const(imm0: f64):before { report var c: f64; c = imm0; }
