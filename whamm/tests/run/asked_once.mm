// app: control.wat
// library: cache
// `@static` calls a library once for each site, in the order of sites, however often the code there
// is considered, and even where it is never executed.
use cache;
report var again: i32;
report var hits: i32;
wasm:opcode:local.set|i32.const:before {
    @static cache.seen(1);
    again = again + @static cache.check((fid as i32 * 1024 + pc as i32) * 64);
    hits = hits + cache.check(0);
}
wasm:opcode:end:before {
    @static cache.seen(1000);
}
wasm:opcode:end:before / at_func_end / {
    report var sites: i32;
    sites = @static cache.sum();
}
