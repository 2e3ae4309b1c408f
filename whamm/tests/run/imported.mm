// app: control.wat
// option: imported
use whamm_core;
report var words: map<u32, i32>;
report var texts: map<str, u16>;
report var pairs: map<(i32, i32), u8>;
report var triples: map<(u8, i32, i16), i32>;
report var empty: map<i32, i32>;
report var deep: map<str, map<i32, i32>>;
report var sum: i64;
report var name: str = "café, \"crème\"";
wasm:opcode:i32.add|i32.sub:before {
    report unshared var seen: map<i32, i32>;
    words[arg0 as u32] += 2;
    words[3] -= 1;
    texts[opname]++;
    texts[fname] = 65535;
    pairs[(arg0, -1)] = pairs[(arg0, -1)] + 255;
    triples[(1, arg0, -2)]--;
    deep[opname][arg0]++;
    seen[arg1] = arg0;
    sum += words[7] as i64 + texts["i32.add"] as i64;
    var own: map<i32, i32>;
    own[1] = arg0;
    print("{} {:x} {} {}\n", own[1], arg0, arg0 > 1, "é");
}
wasm:begin {
    var at: i32 = whamm_core.mem_alloc(8);
    write_str(memid(whamm_core), at, "héllo\n");
    whamm_core.puts(at, 7);
    print(read_str(memid(whamm_core), at, 7));
    whamm_core.mem_free(at);
    whamm_core.putu32(4294967295);
    whamm_core.putc(10);
    whamm_core.print_map(4);
    print(words);
    whamm_core.putc(10);
}
