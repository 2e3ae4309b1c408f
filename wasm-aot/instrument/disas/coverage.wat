;; One-shot coverage probes: the first thread that comes by switches them off.
;;! coverage
(module
    (func $pick (param i32) (result i32)
        (if (result i32) (local.get 0) (then (i32.const 10)) (else (i32.const 20)))))
;; ---
;; $pick: 69 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x10
;;      000f  cmp r10,rsp
;;      0012  ja 0043
;;   @1b if
;;      0018  test esi,esi
;;      001a  jne 002f
;;   @20 i32.const 20
;;      0020  call what notes   ; on at first
;;      0025  mov eax,0x14
;;   @22 end
;;      002a  jmp 0039
;;   @1f else
;;      002f  call what notes   ; on at first
;;   @1d i32.const 10
;;      0034  mov eax,0xa
;;   @23 end
;;      0039  call what notes   ; on at first
;;      003e  mov rsp,rbp
;;      0041  pop rbp
;;      0042  ret
;;      0043  ud2   ; traps: call stack exhausted
