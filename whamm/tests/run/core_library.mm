// app: exit.wat
use whamm_core;
report var m: map<i32, bool>;
wasm:opcode:call_indirect(arg0: i32, arg1: i32):before {
    m[arg1] = true;
    whamm_core.puti32(-3); whamm_core.putc(32); whamm_core.putf64(2.5); whamm_core.putc(32); whamm_core.putbool(true); whamm_core.putc(10);
    var s: str = "text";
    var at: i32 = whamm_core.mem_alloc(8);
    whamm_core.puts(s.addr() as i32, s.len() as i32);
    whamm_core.mem_free(at);
    whamm_core.print_map(0);
    whamm_core.print_map(m);
    write_str(memid(whamm_core), at, "kept");
    println(read_str(memid(whamm_core), at, 4));
    println("{} {} {}", mem_size(APP_MEMID), page_size(APP_MEMID), active_data_start(APP_MEMID));
}
