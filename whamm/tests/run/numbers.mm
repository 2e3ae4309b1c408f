// app: fac.wat
report var u8_: u8 = 250; report var i8_: i8 = 127; report var u16_: u16 = 65535; report var i16_: i16;
report var a: u32; report var b: i32; report var c: u64; report var d: i64; report var e: f32; report var f: f64;
report var lazy: bool; report var shifts: i32; report var casts: (i32, u8, f32, bool, i64); report var chosen: i32;
report var tiny: f64 = 5e-324; report var huge: f64 = 1.7976931348623157e308; report var third: f32; report var round: f64 = 1e23; report var zero: f64;
report var one: f32 = 16777216.0; report var small: f32 = 1e-45;
wasm:func:entry / fid == 2 / {
    u8_ += 10; i8_++; u16_ *= 2; i16_ -= 1; i16_ >>= 3;
    a = ~0 as u32; b = -7 / 2; c = 0xFFFFFFFFFFFFFFFF; d = -(7 as i64) % 3; e = 7.5 % 2.0; f = -0.0;
    var x: i32;
    lazy = x != 0 && 10 / x > 1 || x == 0;
    shifts = 1 << 33 | (-8 >> 1) & 0xF ^ 3;
    casts = (3.99 as i32, 300 as u8, 7 as f32, 2 as bool, -1 as i64);
    chosen = x == 0 ? x == 1 ? 1 : 2 : 3;
    third = 1.0 / 3.0; zero = 0.0 / 0.0;
}
