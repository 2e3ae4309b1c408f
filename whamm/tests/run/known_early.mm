// app: control.wat
// library: cache
// What needs no place in the program is known before it starts.
use cache;
use whamm_core;
var len: u32 = active_data_len(APP_MEMID);
var at: i32 = whamm_core.mem_alloc(len as i32);
memcpy(APP_MEMID, active_data_start(APP_MEMID), memid(whamm_core), at as u32, len);
whamm_core.puts(at, 5);
whamm_core.putc(10);
report var squared: i32 = @static cache.square(12);
report var nested: i32;
nested = @static cache.square(@static cache.square(3));
report var name: str = "hello";
wasm:opcode:memory.grow:before {
    report var text: str = "of the site";
    report var long: u32 = text.len();
    report var starts: bool = text.starts_with("of");
    text = "another";
}
