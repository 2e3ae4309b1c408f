var g: i32 = f(1);
fn f(x: i32) -> i32 { if (x > 0) { return 1; } }
fn h() { return 1; }
fn k() -> i32 { return true; }
fn unshared_in() { unshared var x: i32; }
wasm:opcode:call:before { var x: i32; x = f(); x = f(1, 2); x = f(true); x = h(); return 3; }
if (true) { }
