var n: i32; var n: i32;
fn f() { } fn f() { } fn memcpy() { }
wasm:opcode:call:before { var pc: i32; var imm0: i32; var a: i32; var a: i32; }
