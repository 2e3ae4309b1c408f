// Branches: how often each conditional branch was taken and not taken, and which way each table went.
//
//     memaddr, taken, u32, i32, script0, loop, 1, 10, 1_wasm:opcode:br_if:before, 1
//     memaddr, not_taken, u32, i32, script0, loop, 1, 10, 1_wasm:opcode:br_if:before, 10
//     memaddr, ways, map<u32,u32>, i32, script0, switch, 3, 11, 2_wasm:opcode:br_table:before, 0->1;1->1;2->1;3->2
wasm:opcode:if|br_if:before {
    report var taken: u32;
    report var not_taken: u32;
    if (arg0 != 0) {
        taken++;
    } else {
        not_taken++;
    }
}

wasm:opcode:br_table:before {
    report var ways: map<u32, u32>;
    ways[target]++;
}
