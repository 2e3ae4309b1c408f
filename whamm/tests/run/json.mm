// app: control.wat
// option: json
report var m: map<(i32, str), f32>;
report var quoted: str = "a \"b\" \n\\";
report var inf: f64;
report var t: (u8, (bool, i64));
wasm:opcode:call_indirect:before { report var n: u64; n++; m[(arg0, opname)] = 0.1; inf = 1.0 / 0.0; t = (255, (true, -9223372036854775808)); }
