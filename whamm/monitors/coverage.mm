// Coverage: which instructions were reached at all.
//
//     memaddr, reached, bool, i32, script0, loop, 1, 28, 9_wasm:opcode:end:before, false
wasm:opcode:*:before {
    report var reached: bool;
    reached = true;
}
