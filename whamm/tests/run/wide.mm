// app: wide.wat
// Addresses have the type that they have in the memory.
wasm:opcode:*load*|*store*:before {
    report var at: u64;
    at = effective_addr as u64;
    report var base: u64;
    base = addr as u64;
}
wasm:opcode:memory.copy:before {
    report var len: u64;
    len = arg0 as u64 * 1000000 + arg1 as u64 * 1000 + arg2 as u64;
}
wasm:opcode:memory.grow:after {
    report var pages: u64;
    pages = res0 as u64 + arg0 as u64;
    report var not: bool;
    not = failed;
}
wasm:opcode:call_indirect:before {
    report var entry: u64;
    entry = table_entry_idx as u64;
    report var callee: i32;
    callee = resolved_fid;
}
// Only for one of the two.
wasm:opcode:*store*(arg1: u64):before { report var far: u32; far++; }
wasm:opcode:i32.store(arg1: u32):before { report var near: u32; near++; }
