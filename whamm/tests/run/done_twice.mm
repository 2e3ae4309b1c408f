// app: control.wat
use whamm_core;
wasm:opcode:memory.fill:before {
    var at: i32 = whamm_core.mem_alloc(8);
    write_str(memid(whamm_core), at, "01234567");
    dup_at(memid(whamm_core), at as u32 + 1);
    report var copy: str;
    copy = read_str(memid(whamm_core), at, 8);
    report var len: i32;
    len = arg0;
}
