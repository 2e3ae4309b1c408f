use nowhere;
use nowhere;
use whamm_core;
wasm:opcode:call:before { nowhere.f(1); whamm_core.puti32(3); whamm_core.nothing(); x.f(); memid(y); }
