// Memory: loads and stores for each page of 64 KiB, and the last address that each instruction used.
//
//     map_id, loads, map<u32,u64>, i32, script0, , , , , 0->1
//     memaddr, last, u64, i64, script0, #2, 2, 8, 40_wasm:opcode:i32.store:before, 100
report var loads: map<u32, u64>;
report var stores: map<u32, u64>;

wasm:opcode:i32.load|i64.load|f32.load|f64.load|i32.load8_*|i32.load16_*|i64.load8_*|i64.load16_*|i64.load32_*:before {
    report var last: u64;
    last = effective_addr as u64;
    loads[(effective_addr >> 16) as u32]++;
}

wasm:opcode:i32.store|i64.store|f32.store|f64.store|i32.store8|i32.store16|i64.store8|i64.store16|i64.store32:before {
    report var last: u64;
    last = effective_addr as u64;
    stores[(effective_addr >> 16) as u32]++;
}
