use ;
fn (a: i32) { }
wasm:begin { }
