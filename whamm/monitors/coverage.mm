// Coverage: which instructions were reached at all. In an engine each probe takes itself away when it has fired.
//
//     memaddr, reached, bool, i32, script0, loop, 1, 28, 9_wasm:opcode:end:before, false
use dyninstr;
wasm:opcode:*:before {
    report var reached: bool;
    reached = true;
    dyninstr.remove_probe(probe_id);
}
