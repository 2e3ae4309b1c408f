// app: start.wat
report var n: i32;
wasm:opcode:call:before { n++; }
wasm:func:exit { report var e: i32; e++; }
