// app: control.wat
// A report of its own, in the words of the core library. Maps have numbers by name: `calls` is the
// first one.
use whamm_core;
report var first: map<i32, u32>;
report var calls: map<(u32, u32), u32>;
var none: map<str, i64>;
report var names: map<str, u16>;
wasm:opcode:call:before {
    calls[(fid, imm0)]++;
    names[target_fn_name]++;
}
wasm:report {
    whamm_core.print_map_as_csv(0);
    whamm_core.print_map_as_csv(none);
    whamm_core.print_map_as_csv(names);
    whamm_core.print_map(1);
}
