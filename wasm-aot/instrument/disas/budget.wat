;; Code of a store with a budget of instructions.
;;! budget
(module
    (memory 1)
    (func $fill (param $at i32) (param $n i32)
        (loop $again
            (i32.store (local.get $at) (local.get $n))
            (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))
;; ---
;; $fill: 176 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x10
;;      000f  cmp r10,rsp
;;      0012  ja 00a6
;;   @24 i32.store
;;      0018  mov rax,[rdi+8]
;;      001c  mov rcx,[rdi+0x38]
;;      0020  mov r9d,esi
;;      0023  mov r10,rsi
;;   @1e loop
;;      0026  test eax,0x60   ; OSR at loop 0: a9 -> e9
;;      002b  nop [rax]
;;   @24 i32.store
;;      002f  mov r8,[rax+0x18]
;;      0033  lea rsi,[r8-4]
;;      0037  mov [rax+0x18],rsi
;;      003b  test rsi,rsi
;;      003e  jl 00a8
;;      0044  mov [rcx+r9],edx   ; traps: out of bounds memory access
;;      0048  lea rsi,[r8-9]
;;   @2e br_if 0
;;      004c  mov [rax+0x18],rsi
;;      0050  test rsi,rsi
;;      0053  jl 00aa
;;      0059  sub edx,1
;;      005c  test edx,edx
;;      005e  jne 002f   ; OSR at loop 0: cb -> c2
;;      0064  lea rcx,[r8-0xa]
;;   @30 end
;;      0068  mov [rax+0x18],rcx
;;      006c  test rcx,rcx
;;      006f  jl 00ac
;;      0075  lea rcx,[r8-0xb]
;;   @31 end
;;      0079  mov [rax+0x18],rcx
;;      007d  test rcx,rcx
;;      0080  jl 00ae
;;      0086  mov rsp,rbp
;;      0089  pop rbp
;;      008a  ret
;;   @1e loop
;;      008b  mov rsi,[rdi+0x20]
;;      008f  mov rax,r10
;;      0092  mov [rsi-0x80],eax
;;      0095  mov [rsi-0x7c],edx
;;      0098  mov rax,[rdi+0x28]
;;      009c  mov r10,[rax]
;;      009f  mov rsp,rbp
;;      00a2  pop rbp
;;      00a3  jmp r10
;;      00a6  ud2   ; traps: call stack exhausted
;;   @24 i32.store
;;      00a8  ud2   ; traps: the budget of instructions is used up
;;   @2e br_if 0
;;      00aa  ud2   ; traps: the budget of instructions is used up
;;   @30 end
;;      00ac  ud2   ; traps: the budget of instructions is used up
;;   @31 end
;;      00ae  ud2   ; traps: the budget of instructions is used up
