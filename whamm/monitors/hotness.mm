// Hotness: how often each instruction was executed.
//
//     id, id_type, name, whamm_type, wasm_type, script_id, fname, fid, pc, probe_id, value(s)
//     6728, memaddr, count, u32, i32, script0, fac, 0, 17, 97_wasm:opcode:i32.sub:before, 4
//
// In a rewritten program this costs one counter for each stretch of code, not for each instruction.
wasm:opcode:*:before {
    report var count: u32;
    count++;
}
