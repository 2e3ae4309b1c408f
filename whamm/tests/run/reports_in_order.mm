// app: fac.wat
// Reports of probes stand instead of rows, one after the other.
report var n: i32 = 7;
wasm:report { println("first {}", n); n++; }
wasm:report / n == 8 / { println("second {}", n); }
wasm:report / n == 7 / { println("never"); }
wasm:end { println("before all"); }
