// Loops: how many rounds each made.
//
//     memaddr, rounds, u64, i64, script0, loop, 1, 5, 0_wasm:opcode:loop:before, 11
wasm:opcode:loop:before {
    report var rounds: u64;
    rounds++;
}
