// library: odd
use odd;
wasm:opcode:call:before {
    odd.two(); odd.far(1); odd.vector(); odd.plain(1, 2); odd.plain(true); odd.plain(pc); odd.plane(1); odd.memory(); memid(odd);
    @static odd.plain(arg0); @init odd.plain(pc as i32); var x: i32 = odd.nothing(); odd.plain;
}
