// Every function of the language, and where it is.
use whamm_core;
var s: str = "text"; var b: bool; var u: u32; var p: i32;
p = whamm_core.mem_alloc(8);
fn none() { }
fn several(a: i32, b: bool, c: (i32, str), d: f64) -> (bool, i64) { return (b, 3); }
wasm:begin { whamm_core.mem_free(p); }
wasm:opcode:call:before / (fname.contains("x") || opname.starts_with("c")) && (target_fn_name.ends_with("y") || strcmp((1, 2), "z")) / {
    b = strcontains((p, 3), "w"); u = memid(whamm_core) + mem_size(APP_MEMID) + page_size(APP_MEMID) + active_data_start(APP_MEMID) + active_data_len(APP_MEMID);
    memcpy(APP_MEMID, 0, memid(whamm_core), 8, 4);
    write_str(memid(whamm_core), p, s);
    s = read_str(memid(whamm_core), p, 4);
    u = s.addr() + s.len(); b = s.starts_with("a") || s.ends_with("b") || s.contains("c");
    whamm_core.putu8(1); whamm_core.puti8(1); whamm_core.putu16(1); whamm_core.puti16(1); whamm_core.putu32(1); whamm_core.puti32(1);
    whamm_core.putu64(1); whamm_core.puti64(1); whamm_core.putf32(1.0); whamm_core.putf64(1.0); whamm_core.putbool(true);
    whamm_core.putc(10); whamm_core.puts(p, 4);
    var m: map<i32, i32>;
    whamm_core.print_map(m);
    whamm_core.print_map_as_csv(m);
    b = m.contains(1); m.delete(1); u = m.size();
    none(); b = several(1, true, (2, "t"), 0.5).0;
}
wasm:opcode:i32.add:alt { drop_args(); }
wasm:opcode:i32.sub:alt { alt_call_by_id(1); }
wasm:opcode:i32.mul:alt / pc > 3 / { alt_call_by_name("f"); }
wasm:opcode:memory.init|memory.copy|memory.fill:before { dup_at(memid(whamm_core), p as u32); }
