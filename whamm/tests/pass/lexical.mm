/* long /* nested */ comment */
var map1: i32 = 1_000; // underscores
var ifx: u8 = 0xFF;
var _b: i64 = -5;
var bin: u32 = 0b1010;
var big: u64 = 18446744073709551615;
var f: f32 = 1.5;
var g: f64 = 1e300;
var h: f32 = -inf;
var i: f64 = -NaN;
var s: str = "a\n\r\t\"\'\\\0\x41\u{1F600}
second line";
var const: i32; var global: i32; var local: i32; var table: bool; var load: i32; var use: i32; var fn: i32; var report: i32; var elif: i32; var for: i32;
var arg: i32;
wasm:opcode:call:before {
    const = 1; global++; local--; table = true; load = map1 -1; load = map1 - 1; use = 2 * -1; fn = -load; for = 3; report = 4; elif = -(-for);
}
