// app: control.wat
var n: i32; report var hidden: i32;
wasm:opcode:call:before { n++; }
wasm:report { println("{} calls", n); }
wasm:report { println("that is all"); }
