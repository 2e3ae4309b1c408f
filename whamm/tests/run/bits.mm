// app: fac.wat
// Hexadecimal and binary numbers are the bits of their type; a decimal one that needs the sign's bit earns a warning.
report var word: i32 = 0xFFFF0000; report var byte: i8 = 0xFF; report var half: i16 = 0b1000000000000000;
report var long: i64 = 0x8000000000000000; report var decimal: i8 = 200; report var beef: i32; report var alike: i32;
report var hits: i32; report var misses: i32; report var keys: map<i32, i32>;
wasm:opcode:i32.mul(arg0: i32, arg1: i32):before {
    var result: i32 = arg0 * 65536 + arg1;
    hits += (result & 0xFFFF0000) >> 16;
    misses += result & 0x0000FFFF;
    if (arg0 - 559038739 == 0xDEADBEEF) { beef++; }
    keys[0xFFFFFFFF] = arg1 == 2 ? 0xFFFFFFFE : 1;
}
wasm:opcode:i32.const:before / imm0 == 0xFFFFFFFF || imm0 == 0x64 / { alike++; }
