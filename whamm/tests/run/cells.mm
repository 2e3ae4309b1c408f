// app: control.wat
// What is counted at keys from a small range has cells until the report, which does not tell.
report var all: map<u32, u32>;
report var wide: map<i64, u64>;
report var truths: map<bool, i32>;
report var fallen: map<u8, i32>;
report var halves: map<u16, u16>;
report var looked_at: map<u32, u32>;
report var far: map<u32, u32>;
report var seen: u32;
wasm:opcode:br_table:before {
    report var ways: map<u32, u32>;
    ways[target]++;
    report var steps: map<u32, u64>;
    steps[arg0 & 7] += 3;
    steps[1000] += 1;
    report var left: map<u32, i32>;
    left[target] -= 2;
    report var both: map<u32, i32>;
    both[target]++;
    both[target]--;
    report var last: map<u32, u32>;
    last[target] += arg0;
    all[arg0 % 4]++;
    fallen[target as u8] += 5;
    fallen[2] -= 5;
    looked_at[target]++;
    seen = looked_at[2];
    far[arg0 >> 4]++;
    far[arg0 + 4000000000]++;
}
wasm:opcode:i32.add|i32.sub:before {
    all[(arg0 & 3) as u32]++;
    wide[(arg1 & 15) as i64]++;
    truths[arg0 > 1]++;
    halves[(arg0 & 1) as u16]++;
}
wasm:opcode:i32.const:before { all[100]++; all[3]--; }
wasm:end { all[3 & seen] += 1000; }
