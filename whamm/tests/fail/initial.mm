wasm:opcode:call(arg0: i32):before { var l: i32; unshared var a: i32 = l; report var b: i32 = arg0; unshared var c: i32 = a; }
wasm:report { unshared var d: i32; report var e: i32; }
