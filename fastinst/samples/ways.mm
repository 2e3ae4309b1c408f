// How often each condition was true, and how often it was false.
wasm:opcode:if|br_if:before {
    report var taken: u32;
    report var not_taken: u32;
    if (arg0 != 0) { taken++; } else { not_taken++; }
}
