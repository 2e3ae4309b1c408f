use ;
fn (a: i32) { }
wasm:begin { var : i32 = 1; }
var : i32;
report var : u32 = 1;
