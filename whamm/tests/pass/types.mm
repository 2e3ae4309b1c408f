report var a: u8; var b: i8; var c: u16; var d: i16; var e: bool; var f: str = "";
report var t: (i32, (bool, u64));
var u: (f32, f64) = (1.0, 2);
report var m: map<(i32, str), map<bool, f64>>;
report var k: map<str, str>;
wasm:opcode:call_indirect:before / (fname != "x" && e == false) || f == "y" == e / {
    unshared var x: i32 = fid as i32 + 1;
    report unshared var y: u64 = pc as u64;
    unshared report var z: i32;
    report shared var w: i32;
    frame var v: i32 = 3;
    var local_ref: funcref;
    local_ref = target_funcref;
    m[(x, fname)][true] = 2.0;
    t.1.1 += 3;
    t = (1, (true, 2));
    a = 300 as u8;
    x = y > 3 ? z : w + v;
    k[fname] = f;
    e = k.contains("a") && f.contains("b") && f.starts_with("c") && !f.ends_with("d") && k.size() == 3;
    k.delete("a");
    x = strcmp((1, 2), "abc") ? 1 : strcontains((3, 4), "d") ? 2 : f.len() as i32;
}
