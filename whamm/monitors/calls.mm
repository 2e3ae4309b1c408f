// Calls: how often each call was made, and each function entered.
//
//     memaddr, made, u32, i32, script0, fac, 0, 18, 0_wasm:opcode:call:before, 4
//     memaddr, entered, u32, i32, script0, fac, 0, 0, 6_wasm:func:entry:<no-mode>, 5
wasm:opcode:call*|return_call*:before {
    report var made: u32;
    made++;
}

wasm:func:entry {
    report var entered: u32;
    entered++;
}
