// app: control.wat
report var pairs: map<(i32, bool), u64>;
report var floats: map<f64, i8>;
report var deep: map<str, map<u32, i32>>;
report var texts: map<i32, str>;
report var size: u32;
report var gone: bool;
report var sum: i64;
report var order: str;
wasm:opcode:i32.add|i32.sub:before {
    pairs[(arg0, arg0 > 1)] += 2;
    floats[arg0 as f64 / 2.0] = -1;
    floats[-(arg1 as f64)]--;
    deep[opname][arg1 as u32]++;
    texts[arg0] = fname;
    size = pairs.size();
    pairs[(99, false)] = 1;
    gone = pairs.contains((99, false));
    pairs.delete((99, false));
    gone = gone && !pairs.contains((99, false));
    sum = 0;
    for k, v in pairs { sum += v as i64 * (k.0 as i64); if (k.0 > 3) { break; } }
    for k in texts { if (k == 1) { continue; } order = texts[k]; }
}
