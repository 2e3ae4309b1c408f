// What may stand where: rules in parts, statements of all kinds, words that are no names elsewhere.
use whamm_core;
var var: i32; var unshared: i32; var shared: bool; var frame: u8; var return1: i32; var elsewhere: i32; var mapping: i32; var whiles: i32; var inf: f64; var nan: f32; var argument: i32; var arg: i32;
var hex: u32 = 0Xff; var binary: u32 = 0B101; var long: i64 = -1_000_000; var exponent: f64 = 1_000.5e+3; var short: f64 = 2e-3; var point: f32 = 1.; var far: f64 = -INFINITY; var big: f64 = -Inf; var empty: str = "";
unshared var at_script: i32 = 3;
report shared var once: i32;
var = 3; unshared = var; inf = 0.5; nan = 1.5;
	wasm : opcode /* in the middle */ : call : before { var = 1; }
wasm:opcode:call:before/pc > 3/{ var = 1; }
wasm:opcode:call:before / pc / 2 > 3 / { var = 1; }
wasm:opcode:call:before / (pc + 1) / 2 / 2 == 1 / { var = 1; }
wasm:opcode:call:before / true / { return; }
wasm::call: { var = 1; }
w?sm:*:call|return_call|br*:before|after|alt { var = 1; }
wasm:o*::before { var = 1; }
wasm:func: { var = 1; }
wasm::entry { var = 1; }
wasm:*:*:at_target { var = 1; }
wasm:opcode:[a-c]*.add|i[!3]4.*|*_[su]|f32.load|*\x+!:before { var = 1; }
wasm:opcode<T>:local.set(arg0: T):before { var = 1; }
wasm:opcode:i32.add(arg0: i32, arg1: u32):before { var = 1; }
wasm(local1: f64):opcode(arg0: i32):local.set:before { var = 1; }
fn after_probes() -> i32 { return var; }
report var late: i32;
wasm:opcode:call:before {
    unshared report var both: i32; report unshared var same: i32; shared report var all: i32; report frame var own: i32; frame report var other: u64;
    if (var == 1) { } elif (var == 2) { } elif (var == 3) { } else { }
    if (var == 1) { if (shared) { } else { } }
    var t: (i32, (bool, (str, f64))) = (1, (true, ("x", 2.0)));
    t.1.1.0 = "y"; t.0++; t.1.1.1 = t.1.1.1 as f64;
    var m: map<(i32, bool), i32>;
    m[(1, true)]++; m[(2, false)]--; m[(3, true)] = m[(1, true)] > 1 ? 1 : 2;
}
wasm:opcode:call:before { late = after_probes() as i32; late = (late as i64 as i32); late = - - late; late = (!(~late == 1)) as i32; shared = !!shared; }
wasm:opcode:block|loop|if|else|try_table:entry|exit|after|before|alt { var = 1; }
wasm:opcode:br|br_if|br_table:before|after|at_target { var = 1; }
wasm:opcode:end:before|after { var = 1; }
wasm:opcode:unreachable:before { var = 1; }
wasm:opcode:unreachable:alt { var = 1; }
