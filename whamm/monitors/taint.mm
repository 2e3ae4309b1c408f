// Taint: which instructions load what a marked function has stored. Mark a function by its number, here 0.
//
//     memaddr, tainted, u32, i32, script0, count, 1, 14, 1_wasm:opcode:i32.load8_u:before, 3
var marked: map<u32, bool>;

wasm:opcode:i32.store|i32.store8:before / fid == 0 / { marked[effective_addr] = true; }
wasm:opcode:i32.store|i32.store8:before / fid != 0 / { marked.delete(effective_addr); }
wasm:opcode:i32.load|i32.load8_u:before {
    report var tainted: u32;
    if (marked.contains(effective_addr)) {
        tainted++;
    }
}
