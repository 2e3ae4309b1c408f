;; Words that say where a call through a table goes.
;;! counts call-targets
(module
    (type $t (func (param i32) (result i32)))
    (table 4 funcref)
    (func $apply (param i32 i32) (result i32) (call_indirect (type $t) (local.get 0) (local.get 1))))
;; ---
;; $apply: 176 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x30
;;      000f  cmp r10,rsp
;;      0012  ja 00ac
;;      0018  sub rsp,0x20
;;      001c  mov [rsp],rbx
;;      0020  mov [rsp+8],r12
;;      0025  mov [rsp+0x10],r13
;;      002a  mov rcx,rdx
;;      002d  mov r13,rsi
;;      0030  add qword ptr [rdi+0x50],1
;;   @29 call_indirect 0 (type 0)
;;      0035  mov rax,[rdi+0x40]
;;      0039  mov rdx,[rdi+0x38]
;;      003d  mov esi,ecx
;;      003f  xor rcx,rcx
;;      0042  lea rdx,[rdx+rsi*8]
;;      0046  cmp rsi,rax
;;      0049  cmovae rdx,rcx
;;      004d  mov rbx,[rdx]   ; traps: undefined element
;;      0050  mov eax,[rbx+0x10]   ; traps: uninitialized element
;;      0053  cmp eax,[rdi+0x30]
;;      0056  jne 00ae
;;      005c  mov rax,[rdi+0x58]
;;      0060  cmp rax,rbx
;;      0063  jne 0095
;;      0069  mov r12,rdi
;;      006c  add qword ptr [r12+0x60],1
;;      0072  mov rax,[rbx]
;;      0075  mov rdi,[rbx+8]
;;      0079  mov rsi,r13
;;      007c  call rax
;;   @2c end
;;      007e  mov rbx,[rsp]
;;      0082  mov r12,[rsp+8]
;;      0087  mov r13,[rsp+0x10]
;;      008c  add rsp,0x20
;;      0090  mov rsp,rbp
;;      0093  pop rbp
;;      0094  ret
;;   @29 call_indirect 0 (type 0)
;;      0095  mov rax,[rdi+0x10]
;;      0099  mov r12,rdi
;;      009c  mov rax,[rax+0x70]
;;      00a0  xor esi,esi
;;      00a2  mov rdx,rbx
;;      00a5  call rax
;;      00a7  jmp 006c
;;      00ac  ud2   ; traps: call stack exhausted
;;      00ae  ud2   ; traps: indirect call type mismatch
