// app: control.wat
wasm:opcode:i32.div_s:before {
    report var one: (u32, i64);
    one = (1, -2);
    report var nested: (i32, (bool, str), f64);
    nested = (arg0, (arg0 > 1, "x; y, \"z\""), 0.5);
    report var held: map<(i32, i32), (u8, bool)>;
    held[(3, 4)] = (5, true);
}
