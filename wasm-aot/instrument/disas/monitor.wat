;; A monitor that is written out where it is called.
;;| report var bytes: u64;
;;| var last: u32;
;;| wasm:opcode:*load*:before / memory == 0 / { if (effective_addr as u32 == last) { bytes++; } last = effective_addr as u32; }
(module
    (memory 1)
    (func $read (param $at i32) (result i32) (i32.load offset=4 (local.get $at))))
;; ---
;; $read: 93 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;   @20 i32.load
;;      0004  mov rax,the monitor's vmctx + 0x0
;;   @20 i32.load (the monitor's)
;;      000e  mov eax,[rax+0xb0]
;;      0014  lea ecx,[rsi+4]
;;      0017  cmp ecx,eax
;;      0019  jne 003b
;;      001f  mov rax,the monitor's vmctx + 0x0
;;      0029  mov rcx,the monitor's vmctx + 0x0
;;      0033  add qword ptr [rax+0xa0],1
;;      003b  lea eax,[rsi+4]
;;      003e  mov rcx,the monitor's vmctx + 0x0
;;      0048  mov [rcx+0xb0],eax
;;   @20 i32.load
;;      004e  mov rax,[rdi+0x38]
;;      0052  mov ecx,esi
;;      0054  mov eax,[rax+rcx+4]   ; traps: out of bounds memory access
;;   @23 end
;;      0058  mov rsp,rbp
;;      005b  pop rbp
;;      005c  ret
