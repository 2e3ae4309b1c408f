;; Patchable sites before every instruction; those that are executed together share one.
;;! all-sites
(module
    (memory 1)
    (func $bump (param $at i32) (result i32)
        (i32.store (local.get $at) (i32.add (i32.load (local.get $at)) (i32.const 1)))
        (if (result i32) (local.get $at) (then (i32.const 1)) (else (i32.const 2)))))
;; ---
;; $bump: 104 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x10
;;      000f  cmp r10,rsp
;;      0012  ja 0066
;;   @1e local.get 0
;;      0018  test eax,0   ; site of @1e   ; site of @20   ; site of @22
;;   @22 i32.load
;;      001d  mov r11,[rdi+0x38]
;;      0021  mov eax,esi
;;      0023  mov ecx,[r11+rax]   ; traps: out of bounds memory access
;;   @25 i32.const 1
;;      0027  test eax,0   ; site of @25   ; site of @27   ; site of @28
;;   @27 i32.add
;;      002c  add ecx,1
;;   @28 i32.store
;;      0032  mov [r11+rax],ecx   ; traps: out of bounds memory access
;;   @2b local.get 0
;;      0036  test eax,0   ; site of @2b   ; site of @2d
;;   @2d if
;;      003b  test esi,esi
;;      003d  jne 0052
;;   @32 i32.const 2
;;      0043  test eax,0   ; site of @32
;;      0048  mov eax,2
;;   @34 end
;;      004d  jmp 005c
;;   @2f i32.const 1
;;      0052  test eax,0   ; site of @2f   ; site of @31
;;      0057  mov eax,1
;;   @34 end
;;      005c  test eax,0   ; site of @34   ; site of @35
;;   @35 end
;;      0061  mov rsp,rbp
;;      0064  pop rbp
;;      0065  ret
;;      0066  ud2   ; traps: call stack exhausted
