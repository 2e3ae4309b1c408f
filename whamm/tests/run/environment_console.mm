// app: exit.wat
// option: env
// environment: TO_CONSOLE=true
// environment: WHAMM_OUTDIR=reports
report var calls: u32;
wasm:opcode:*call*:before { calls++; }
