// app: control.wat
wasm:opcode:memory.grow:before {
    report var byte: u8;
    byte = -1 << 2;
    report var half: u16;
    half = -1 >> 4;
    report var word: u32;
    word = -1 & 65535;
    report var code: i16;
    code = bytecode;
    report var rest: f64;
    rest = -4.0 % 2.0;
    report var given: f32;
    given = -(arg0 as f32) % 1.0;
}
