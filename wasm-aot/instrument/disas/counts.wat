;; Counters on edges.
;;! counts
(module
    (func $gcd (param $x i32) (param $y i32) (result i32)
        (block $done
            (loop $again
                (br_if $done (i32.eqz (local.get $y)))
                (local.get $y)
                (local.set $y (i32.rem_u (local.get $x) (local.get $y)))
                (local.set $x)
                (br $again)))
        (local.get $x))
    (func $side (param i32) (result i32)
        (if (result i32) (local.get 0) (then (i32.const 3)) (else (unreachable)))))
;; ---
;; $gcd: 109 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x10
;;      000f  cmp r10,rsp
;;      0012  ja 006b
;;   @22 loop
;;      0018  add qword ptr [rdi+0x40],1
;;      001d  mov rax,rsi
;;      0020  test eax,0x26   ; OSR at loop 0: a9 -> e9
;;      0025  nop [rax]
;;      0029  mov rcx,rdx
;;   @27 br_if 1
;;      002c  test ecx,ecx
;;      002e  je 0046
;;      0034  add qword ptr [rdi+0x48],1
;;   @2f i32.rem_u
;;      0039  xor rdx,rdx
;;      003c  div ecx   ; traps: integer divide by zero
;;      003e  mov rax,rcx
;;   @34 br 0
;;      0041  jmp 0029   ; OSR at loop 0: e3 -> da
;;   @3a end
;;      0046  mov rsp,rbp
;;      0049  pop rbp
;;      004a  ret
;;      004b  mov rcx,rdx
;;   @22 loop
;;      004e  add qword ptr [rdi+0x58],1
;;      0053  mov rsi,[rdi+0x20]
;;      0057  mov [rsi-0x80],eax
;;      005a  mov [rsi-0x7c],ecx
;;      005d  mov rax,[rdi+0x28]
;;      0061  mov r10,[rax]
;;      0064  mov rsp,rbp
;;      0067  pop rbp
;;      0068  jmp r10
;;      006b  ud2   ; traps: call stack exhausted
;; $side: 34 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;   @3f if
;;      0004  test esi,esi
;;      0006  je 001b
;;   @43 else
;;      000c  add qword ptr [rdi+0x60],1
;;   @41 i32.const 3
;;      0011  mov eax,3
;;   @46 end
;;      0016  mov rsp,rbp
;;      0019  pop rbp
;;      001a  ret
;;   @44 unreachable
;;      001b  add qword ptr [rdi+0x68],1
;;      0020  ud2   ; traps: unreachable
