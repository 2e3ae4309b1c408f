// app: control.wat
// An end is passed also where only branches come to it.
wasm:opcode:end:before / fname == "switch" / { report var before: u32; before++; }
wasm:opcode:end:after / fname == "switch" / { report var after: u32; after++; }
