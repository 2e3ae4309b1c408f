// Rows of sites are ordered by type, tuples and maps by the name of their type. Then come the
// variables of the script by name, maps last.
// app: fac.wat
report var z_counts: map<u32, u32>;
report var said: str;
report var a_counts: map<u32, u32>;
report var hits: u64;
report var aim: i32;

wasm:opcode:i32.const:before {
    report var wide: (u8, i64);
    report var both: (i32, (i32, i32));
    report var is_met: bool;
    report var text: str = "one, \"two\"";
    report var pair: (str, u32) = ("one, two", 3);
    report unshared var small: i16;
    is_met = true;
    both = (1, (2, 3));
    wide = (4, 5);
    small = 6;
    z_counts[1]++;
    a_counts[2]++;
    hits++;
    aim--;
    said = "first line
second line
";
}
