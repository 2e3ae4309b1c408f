var a: u8 = 256;
var b: i8 = -129;
var c: i32 = 99999999999999999999999999999999999999999999;
var d: i32 = 007;
var e: u64 = -1;
var f: str = "\q \u{D800} \x4";
wasm:opcode:call:before { }
