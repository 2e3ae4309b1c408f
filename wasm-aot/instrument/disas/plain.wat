;; A latent entry, a loop that can be left for another version, accesses, calls.
(module
    (import "host" "seen" (func $seen (param i32)))
    (memory 1)
    (func $leaf (param i32) (result i32) (i32.add (i32.load offset=8 (local.get 0)) (i32.const 1)))
    (func $sum (export "sum") (param $n i32) (result i32) (local $i i32) (local $sum i32)
        (loop $again
            (local.set $sum (i32.add (local.get $sum) (call $leaf (local.get $i))))
            (i32.store (local.get $i) (local.get $sum))
            (br_if $again (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 4))) (local.get $n))))
        (call $seen (local.get $sum))
        (i32.div_u (local.get $sum) (local.get $n))))
;; ---
;; $leaf: 26 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r8,rsi
;;   @3d i32.load
;;      0007  mov rsi,[rdi+0x48]
;;      000b  mov edi,r8d
;;      000e  mov esi,[rsi+rdi+8]   ; traps: out of bounds memory access
;;   @42 i32.add
;;      0012  lea eax,[rsi+1]
;;   @43 end
;;      0015  mov rsp,rbp
;;      0018  pop rbp
;;      0019  ret
;; $sum: 238 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x40
;;      000f  cmp r10,rsp
;;      0012  ja 00ec
;;      0018  sub rsp,0x30
;;      001c  mov [rsp],rbx
;;      0020  mov [rsp+8],r12
;;      0025  mov [rsp+0x10],r13
;;      002a  mov [rsp+0x18],r14
;;      002f  mov [rsp+0x20],r15
;;      0034  mov r13,rsi
;;      0037  xor r14d,r14d
;;   @57 i32.store
;;      003a  mov rbx,[rdi+0x48]
;;      003e  mov r15,rdi
;;      0041  mov r12,r14
;;   @48 loop
;;      0044  test eax,0x64   ; OSR at loop 0: a9 -> e9
;;      0049  nop [rax+rax]
;;      004e  mov rsi,r14
;;      0051  mov rdi,r15
;;   @4e call 1
;;      0054  call $leaf
;;   @50 i32.add
;;      0059  add r12d,eax
;;   @57 i32.store
;;      005c  mov eax,r14d
;;      005f  mov [rbx+rax],r12d   ; traps: out of bounds memory access
;;      0063  add r14d,4
;;   @64 br_if 0
;;      006a  cmp r14d,r13d
;;      006d  jb 004e   ; OSR at loop 0: db -> d1
;;      0073  mov rdi,r15
;;   @69 call 0
;;      0076  mov rax,[rdi+0x30]
;;      007a  mov rdi,[rdi+0x38]
;;      007e  mov rsi,r12
;;      0081  call rax
;;      0083  mov rax,r12
;;   @6f i32.div_u
;;      0086  xor rdx,rdx
;;      0089  div r13d   ; traps: integer divide by zero
;;   @70 end
;;      008c  mov rbx,[rsp]
;;      0090  mov r12,[rsp+8]
;;      0095  mov r13,[rsp+0x10]
;;      009a  mov r14,[rsp+0x18]
;;      009f  mov r15,[rsp+0x20]
;;      00a4  add rsp,0x30
;;      00a8  mov rsp,rbp
;;      00ab  pop rbp
;;      00ac  ret
;;      00ad  mov rax,r12
;;      00b0  mov rdi,r15
;;   @48 loop
;;      00b3  mov rsi,[rdi+0x20]
;;      00b7  mov [rsi-0x80],r13d
;;      00bb  mov [rsi-0x7c],r14d
;;      00bf  mov [rsi-0x78],eax
;;      00c2  mov rax,[rdi+0x28]
;;      00c6  mov r10,[rax]
;;      00c9  mov rbx,[rsp]
;;      00cd  mov r12,[rsp+8]
;;      00d2  mov r13,[rsp+0x10]
;;      00d7  mov r14,[rsp+0x18]
;;      00dc  mov r15,[rsp+0x20]
;;      00e1  add rsp,0x30
;;      00e5  mov rsp,rbp
;;      00e8  pop rbp
;;      00e9  jmp r10
;;      00ec  ud2   ; traps: call stack exhausted
