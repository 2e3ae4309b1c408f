;; Two probes at one place, the first of which divides by an operand and so may trap: what the
;; second one is given is kept, and the cell holds the first one meanwhile. The places of the other
;; probes have nothing of that: the first of them cannot trap.
;;| var sum: i32;
;;| var last: i32;
;;| wasm:opcode:i32.mul(arg0: i32):before { sum = sum / arg0; }
;;| wasm:opcode:i32.mul(arg1: i32):before { last = arg1; }
;;| wasm:opcode:i32.add:before { sum = 7; }
;;| wasm:opcode:i32.add(arg1: i32):before { last = arg1; }
(module
    (func (export "f") (param i32 i32) (result i32)
        (i32.add (local.get 0) (i32.mul (local.get 0) (local.get 1)))))
;; ---
;; function 0: 178 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x20
;;      000f  cmp r10,rsp
;;      0012  ja 00ae
;;      0018  sub rsp,0x20
;;      001c  mov r8,rdx
;;   @27 i32.mul
;;      001f  lea rcx,[rsp]
;;      0023  mov [rsp],rdi
;;      0027  mov rax,rbp
;;      002a  mov [rsp+8],rax
;;      002f  mov rdi,[rdi+8]
;;      0033  mov [rdi+0x28],rcx
;;      0037  mov eax,esi
;;      0039  mov [rsp+0x10],rax
;;      003e  mov rax,the hooks + 0x0
;;      0048  mov [rdi+0x20],rax
;;      004c  mov rcx,the monitor's vmctx + 0x0
;;   @27 i32.mul (the monitor's)
;;      0056  mov eax,[rcx+0x50]
;;      0059  cdq
;;      005a  test r8d,r8d
;;      005d  je 00b0
;;      0063  idiv r8d   ; traps: integer overflow
;;      0066  mov [rcx+0x50],eax
;;   @27 i32.mul
;;      0069  mov qword ptr [rdi+0x20],0
;;      0071  mov rax,the monitor's vmctx + 0x0
;;   @27 i32.mul (the monitor's)
;;      007b  mov [rax+0x60],esi
;;      007e  mov rax,the monitor's vmctx + 0x0
;;   @28 i32.add (the monitor's)
;;      0088  mov dword ptr [rax+0x50],7
;;      008f  mov rax,the monitor's vmctx + 0x0
;;      0099  mov [rax+0x60],esi
;;      009c  mov rax,rsi
;;   @27 i32.mul
;;      009f  imul eax,r8d
;;   @28 i32.add
;;      00a3  add eax,esi
;;   @29 end
;;      00a5  add rsp,0x20
;;      00a9  mov rsp,rbp
;;      00ac  pop rbp
;;      00ad  ret
;;      00ae  ud2   ; traps: call stack exhausted
;;   @27 i32.mul (the monitor's)
;;      00b0  ud2   ; traps: integer divide by zero
