// app: control.wat
wasm:opcode:br_table:before {
    report var taken: map<u32, u32>;
    var depth: u32 = arg0 <= num_targets - 1 ? targets[arg0] : default_target;
    taken[depth]++;
    report var beyond: u32;
    beyond = targets[arg0 + 100];
}
