wasm:opcode:loud:before { report var n: i32; n = efective_addr; n = arg0 + true; n += true; target = 3; if (fname == 3) { } m[1]++; }
wasm:opcode:call:befor { var x: bool = pc; x = num_targets == 3; report var ok: u32; ok = imm0; ok = fid; local0++; arg0 = 1; drop_args(); }
wasm:opcode:br_if(arg0: i64):before { report var n: i32; n = arg0; n = missing; }
wasm:opcode:call(arg0 i32):before { var y: bool = 3; return 4; }
wasm:opcode:call:before:twice { var z: str = 5; z.size(); }
wasm:opcode:call:before / pc = 3 / { var w: u8 = 300; lost++; }
fn broken(a, b: i32) -> i32 { report var r: i32; var c: bool = 1; return a + c; }
fn other() -> int { nothing(a); }
wasm:opcode:locl.set<T: int>(arg0: T):before { var t: T; t = arg0 >> 1; t = 1.5; t = u; }
wasm:opcode:local.set(arg0: S):before { var s: S; s = arg0; s = undeclared; }
wasm:opcode:call:before { both(wrong, worse); wrong && worse; }
wasm:opcode:call:before { var b: bool = wrong && worse || 1; b = wrong == worse; b = wrong ? worse : worst; nowhere[wrong] = worse; for i in wrong..3 {  var a: bool = i; a = 1; } for k in worse { var l: bool = 2; } print("{} {}", wrong, worse); fname.size(wrong); strcmp(wrong); }
