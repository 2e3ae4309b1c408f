// app: abort.wat
wasm:func:entry { report var e: i32; e++; }
wasm:func:unwind { report var u: i32; u++; }
wasm:opcode:*:before { report var n: i32; n++; }
