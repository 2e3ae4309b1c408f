// app: blocks_given.wat
// What a block was given is known in it and behind it, in its own activation.
wasm:opcode:if:entry / arg0 == 7 / { report var e: u32; e++; }
wasm:opcode:if:entry { report var s: u32; s = s + arg0; }
wasm:opcode:if:exit { report var x: u32; x = x + arg0; }
wasm:opcode:if:after { report var b: u32; b = b + arg0 + 1; }
wasm:opcode:block(arg0: i64):exit { report var y: i64; y = y + arg0; }
wasm:opcode:block(arg0: i64):after { report var z: i64; z = z + arg0; }
wasm:opcode:loop(arg0: i32):exit { report var l: i32; l = l + arg0; }
wasm:opcode:loop(arg0: i32):after { report var m: i32; m = m + arg0; }
wasm:opcode:loop(arg0: i32):entry { report var t: i32; t = t + arg0; }
