// app: fac.wat
// How what is written is read: texts, literals, operators and their order.
report var logic: bool;
report var sums: (i32, i32, i32, i32);
report var bits: (i32, i32, i32);
report var cast: u32;
report var minus: (i32, i32, i32);
report var wraps: (u8, i8, u16, i16);
report var shifted: (u8, i8, u32, i32);
unshared var kept: i32;
report var copy: i32;
wasm:func:entry / fid == 2 / {
    println("\"in quotes\"");
    println("\"");
    println("é is \xe9, \u{1F600}, \x41");
    println("two
lines");
    println("{} {} {}", 2147483647, 2147483648, 9223372036854775808);
    // Both bind alike and to the left.
    var yes: bool = true;
    logic = yes || yes && !yes;
    sums = (2 + 3 * 4 - 1, (2 + 3) * 4, 7 - 2 - 1, 100 / 7 % 4);
    bits = (1 + 2 << 1, 6 | 1 ^ 3 & 2, 255 >> 4 & 7);
    cast = 3 + 4 as u32;
    var a: i32 = 10;
    minus = (a -1, a - 1, a * -1);
    var b: u8 = 200; var c: i8 = 100; var d: u16 = 65535; var e: i16 = -32768;
    wraps = (b + 100, c + 100, d + 2, e - 1);
    var f: u8 = 129; var g: i8 = -127; var h: u32 = 0x80000001; var i: i32 = 0 - 2147483647;
    shifted = (f >> 1, g >> 1, h >> 1, i >> 1);
    logic = logic == (1 < 2 == true);
    // What is missing in a map is zero, and does not come into being by being read.
    var m: map<i32, i32>;
    m[3] = m[1] + m[2];
    kept += m.size() as i32;
    copy = kept;
    // What is printed last is not lost, though no line ends.
    print("the end");
}
