var begins: i32 = 7 % 0;
fn f(x: i32) -> i32 { return x % 0; }
wasm:opcode:call:before / pc / 0 > 1 && 1 / 0 == 1 / {
    var x: i32 = 1 / 0;
    var never: bool = false && 1 / 0 == 1 || true;
    var chosen: i32 = true ? 3 : 4 / 0;
    x = -2147483648 / -1;
    x = fid as i32 / 0;
    x /= 0;
    x = f(5 / (2 - 2));
    var fraction: f64 = 1.0 / 0.0;
}
