// app: exit.wat
// option: env
// environment: HOME=/root
// environment: WHAMM_OUTDIRECTORY=no
// environment: WHAMM_OUTDIR=reports
// environment: TO_CONSOLE=yes
// environment: WHAMM_OUTFILE=run.csv
report var calls: u32;
wasm:opcode:*call*:before { calls++; }
