// app: control.wat
// What is usual at a site is taken back where a choice falls otherwise; what is usual differs from site to site.
report var a: u32; report var b: u64; report var c: u32; report var d: u32; report var last: i32;
wasm:opcode:i32.add|i32.sub:before {
    if (arg1 > 3) {
        if (fname == "add") { a++; } else { b += 2; }
    } else {
        if (opname == "i32.add") { c++; } else { d += 3; }
    }
}
wasm(local0: i32):opcode:i32.eqz|br_table:before {
    if (local0 < 2) { c += 100; } elif (local0 == 2) { c += 100; } elif (local0 == 3) { } else { c += 100; last = local0; }
}
wasm(local0: i32):opcode:local.get:before {
    if (local0 == 1) { } elif (local0 == 2) { d += 1000; } else { a += 0; b += 10000; }
}
