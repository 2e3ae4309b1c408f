// app: fac.wat
report var total: u64;
report var m: map<u32, u32>;
report var names: map<str, i32>;
report var x: f64 = 0.1;
report var t: (i32, bool) = (3, true);
report var s: str = "a,b";
wasm:opcode:*:before { m[category_id]++; total++; }
wasm:opcode:*:before { names[opname]++; }
wasm:opcode:call:before / target_fn_name == "fac" / { report var n: i32; n = n + 1; x = x * 3.0; t.0 += 2; }
wasm:opcode:br_if|if:before { report unshared var taken_n: i32; report var not: i32; if (arg0 != 0) { taken_n++; } else { not++; } }
wasm:opcode:*load*|*store*:before { report var last: u32; last = effective_addr; println("{} at {} {:x}", opname, effective_addr, pc); }
wasm:func:exit { report var e: i32; e++; }
wasm:func:entry { report var e: i32; e++; }
wasm:block:end { report var b: u32; b += instr_count; }
