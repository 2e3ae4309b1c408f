;; What threads go over into: OSR entries, and the OSR exits of both.
;;! counts entries
(module
    (func $table (param $rows i32) (param $columns i32) (result i64) (local $i i32) (local $j i32) (local $sum i64)
        (loop $row
            (local.set $j (i32.const 0))
            (loop $column
                (local.set $sum (i64.add (local.get $sum) (i64.extend_i32_u (i32.mul (local.get $i) (local.get $j)))))
                (br_if $column (i32.lt_u (local.tee $j (i32.add (local.get $j) (i32.const 1))) (local.get $columns))))
            (br_if $row (i32.lt_u (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $rows))))
        (local.get $sum)))
;; ---
;; $table: 210 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x10
;;      000f  cmp r10,rsp
;;      0012  ja 00d0
;;      0018  mov r9,rsi
;;   @1e loop
;;      001b  add qword ptr [rdi+0x40],1
;;      0020  xor r8d,r8d
;;      0023  xor rax,rax
;;      0026  test eax,0x79   ; OSR at loop 0: a9 -> e9
;;      002b  nop [rax+rax]
;;   @24 loop
;;      0030  add qword ptr [rdi+0x48],1
;;      0035  xor r10d,r10d
;;      0038  test eax,0x48   ; OSR at loop 1: a9 -> e9
;;      003d  nop [rax+rax]
;;      0042  add qword ptr [rdi+0x50],1
;;      0047  lea ecx,[r10+1]
;;      004b  mov rsi,r8
;;   @2c i32.mul
;;      004e  imul esi,r10d
;;   @2e i64.add
;;      0052  add rax,rsi
;;   @3b br_if 0
;;      0055  cmp ecx,edx
;;      0057  jae 0065
;;      005d  mov r10,rcx
;;      0060  jmp 0042   ; OSR at loop 1: dd -> d3
;;      0065  add r8d,1
;;      006c  mov rcx,r9
;;   @48 br_if 0
;;      006f  cmp r8d,ecx
;;      0072  jae 0080
;;      0078  mov r9,rcx
;;      007b  jmp 0030   ; OSR at loop 0: b0 -> a6
;;   @4d end
;;      0080  mov rsp,rbp
;;      0083  pop rbp
;;      0084  ret
;;      0085  mov rcx,r9
;;      0088  mov r9d,1
;;   @24 loop
;;      008e  add qword ptr [rdi+0x70],1
;;      0093  mov rsi,[rdi+0x20]
;;      0097  mov [rsi-0x70],rax
;;      009b  mov [rsi-0x68],r10d
;;      009f  jmp 00b7
;;      00a4  mov rcx,r9
;;   @1e loop
;;      00a7  add qword ptr [rdi+0x60],1
;;      00ac  mov rsi,[rdi+0x20]
;;      00b0  mov [rsi-0x70],rax
;;      00b4  xor r9,r9
;;   @24 loop
;;      00b7  mov [rsi-0x80],ecx
;;      00ba  mov [rsi-0x7c],edx
;;      00bd  mov [rsi-0x78],r8d
;;      00c1  mov rax,[rdi+0x28]
;;      00c5  mov r10,[rax+r9*8]
;;      00c9  mov rsp,rbp
;;      00cc  pop rbp
;;      00cd  jmp r10
;;      00d0  ud2   ; traps: call stack exhausted
;; $table, entered in loop 0: 176 bytes
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;   @1e loop
;;      0004  mov edx,[rsi-0x80]
;;      0007  mov ecx,[rsi-0x7c]
;;      000a  mov r8d,[rsi-0x78]
;;      000e  mov rax,[rsi-0x70]
;;      0012  add qword ptr [rdi+0x58],1
;;      0017  test eax,0x6b   ; OSR at loop 0: a9 -> e9
;;      001c  nop [rax+rax]
;;   @24 loop
;;      0021  add qword ptr [rdi+0x48],1
;;      0026  xor r10d,r10d
;;      0029  test eax,0x3d   ; OSR at loop 1: a9 -> e9
;;      002e  nop [rax+rax]
;;      0033  add qword ptr [rdi+0x50],1
;;      0038  lea esi,[r10+1]
;;      003c  mov r9,r8
;;   @2c i32.mul
;;      003f  imul r9d,r10d
;;   @2e i64.add
;;      0043  add rax,r9
;;   @3b br_if 0
;;      0046  cmp esi,ecx
;;      0048  jae 0056
;;      004e  mov r10,rsi
;;      0051  jmp 0033   ; OSR at loop 1: dd -> d3
;;      0056  add r8d,1
;;   @48 br_if 0
;;      005d  cmp r8d,edx
;;      0060  jb 0021   ; OSR at loop 0: bb -> b1
;;   @4d end
;;      0066  mov rsp,rbp
;;      0069  pop rbp
;;      006a  ret
;;      006b  mov r9d,1
;;   @24 loop
;;      0071  add qword ptr [rdi+0x70],1
;;      0076  mov rsi,[rdi+0x20]
;;      007a  mov [rsi-0x70],rax
;;      007e  mov [rsi-0x68],r10d
;;      0082  jmp 0097
;;   @1e loop
;;      0087  add qword ptr [rdi+0x60],1
;;      008c  mov rsi,[rdi+0x20]
;;      0090  mov [rsi-0x70],rax
;;      0094  xor r9,r9
;;   @24 loop
;;      0097  mov [rsi-0x80],edx
;;      009a  mov [rsi-0x7c],ecx
;;      009d  mov [rsi-0x78],r8d
;;      00a1  mov rax,[rdi+0x28]
;;      00a5  mov r10,[rax+r9*8]
;;      00a9  mov rsp,rbp
;;      00ac  pop rbp
;;      00ad  jmp r10
;; $table, entered in loop 1: 166 bytes
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;   @24 loop
;;      0004  mov edx,[rsi-0x80]
;;      0007  mov ecx,[rsi-0x7c]
;;      000a  mov r8d,[rsi-0x78]
;;      000e  mov r10d,[rsi-0x68]
;;      0012  mov rax,[rsi-0x70]
;;      0016  add qword ptr [rdi+0x68],1
;;      001b  test eax,0x56   ; OSR at loop 1: a9 -> e9
;;      0020  nop [rax+rax]
;;      0025  add qword ptr [rdi+0x50],1
;;      002a  lea esi,[r10+1]
;;      002e  mov r9,r8
;;   @2c i32.mul
;;      0031  imul r9d,r10d
;;   @2e i64.add
;;      0035  add rax,r9
;;   @3b br_if 0
;;      0038  cmp esi,ecx
;;      003a  jae 0048
;;      0040  mov r10,rsi
;;      0043  jmp 0025   ; OSR at loop 1: dd -> d3
;;      0048  add r8d,1
;;   @48 br_if 0
;;      004f  cmp r8d,edx
;;      0052  jb 005d
;;   @4d end
;;      0058  mov rsp,rbp
;;      005b  pop rbp
;;      005c  ret
;;   @1e loop
;;      005d  add qword ptr [rdi+0x60],1
;;      0062  mov rsi,[rdi+0x20]
;;      0066  mov [rsi-0x78],r8d
;;      006a  mov [rsi-0x70],rax
;;      006e  xor r9,r9
;;      0071  jmp 0091
;;      0076  mov r9d,1
;;   @24 loop
;;      007c  add qword ptr [rdi+0x70],1
;;      0081  mov rsi,[rdi+0x20]
;;      0085  mov [rsi-0x78],r8d
;;      0089  mov [rsi-0x70],rax
;;      008d  mov [rsi-0x68],r10d
;;   @1e loop
;;      0091  mov [rsi-0x80],edx
;;      0094  mov [rsi-0x7c],ecx
;;      0097  mov rax,[rdi+0x28]
;;      009b  mov r10,[rax+r9*8]
;;      009f  mov rsp,rbp
;;      00a2  pop rbp
;;      00a3  jmp r10
