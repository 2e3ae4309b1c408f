// Basic blocks: how often each was executed.
//
//     memaddr, executed, u32, i32, script0, fac, 0, 8, 0_wasm:block:start:<no-mode>, 1
wasm:block:start {
    report var executed: u32;
    executed++;
}
