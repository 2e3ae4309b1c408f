var a: i32;
// a comment
wasm:opcode:call:before {
	a++;
}
