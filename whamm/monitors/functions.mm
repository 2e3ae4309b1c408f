// Functions: entries and ends of each, and how deep calls were nested.
//
//     memaddr, entries, u32, i32, script0, fac, 0, 0, 0_wasm:func:entry:<no-mode>, 5
//     global_id, deepest, i32, i32, script0, , , , , 6
var depth: i32;
report var deepest: i32;

wasm:func:entry {
    report var entries: u32;
    entries++;
    depth++;
    if (depth > deepest) {
        deepest = depth;
    }
}

wasm:func:exit { depth--; }
