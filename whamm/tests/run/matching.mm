// app: control.wat
// Patterns match whatever the case, and `*` also matches points.
wasm:OpCode:I32.ADD:Before { report var a: u32; a++; }
wasm:opcode:i32.?dd:before { report var b: u32; b++; }
wasm:opcode:i[!6]2.sub:before { report var c: u32; c++; }
wasm:opcode:i32.[a-c]*:before { report var d: u32; d++; }
w*m:op*:memory*:before { report var e: u32; e++; }
:opcode:br_table:before { report var f: u32; f++; }
wasm::return|nop:before { report var g: u32; g++; }
