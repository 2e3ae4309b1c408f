// app: control.wat
// library: cache
use cache;
report var misses: i32;
report var total: i32;
report var text: str;
var begins: i32 = cache.square(6);
report var b: i32;
wasm:opcode:*load*|*store*:before {
    @init cache.seen(pc as i32 * 0 + 1);
    if (cache.check(effective_addr as i32) == 0) { misses++; }
    report var square: i32 = cache.square(pc as i32);
    report var folded: i32;
    folded = @static cache.square(fid as i32);
    text = read_str(memid(cache), 100, 8);
    var app: str;
    app = read_str(APP_MEMID, 40, 5);
    if (app == "world" && app.ends_with("ld")) { total = cache.sum(); }
    b = begins;
    memcpy(APP_MEMID, 8, memid(cache), 200, 5);
    write_str(memid(cache), 205, "!");
    if (read_str(memid(cache), 200, 6) == "hello!") { total += 1000; }
}
