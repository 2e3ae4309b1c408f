use ;
fn (a: i32) { }
wasm:begin { var : i32 = 1; }
