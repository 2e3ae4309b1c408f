// Of what is wrong for several types it is said for which.
wasm:opcode:local.set<T: numeric>(arg0: T):before { report var a: T; a = arg0 + 1.5; }
wasm:opcode:local.set<T>(arg0: T):before { var a: i32; a = arg0; var b: f64 = arg0; }
wasm:opcode:local.set<T: int>(arg0: T):before { report var a: T; a = nothing; a = arg0 as Z; }
