var n: i32;
wasm:opcode:br_if(arg0: i64):before { n++; }
wasm:opcode:nop(arg0: i32):before { n++; }
wasm:opcode:call:before { n = arg0; }
wasm:opcode:call(pc: i32):before { n++; }
wasm:opcode:i32.add:before { n = effective_addr as i32; }
wasm:opcode:local.set<T: int>(arg0: T):before { var x: T; x = arg0 + 1.5; }
wasm:opcode:local.set(arg0: T):before { n++; }
