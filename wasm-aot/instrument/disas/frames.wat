;; Frames that can be read keep their instance and their locals.
;;! frames
(module
    (func $scale (param $x i32) (param $by f64) (result f64) (local $y i32)
        (local.set $y (i32.add (local.get $x) (i32.const 1)))
        (f64.mul (local.get $by) (f64.convert_i32_s (local.get $y)))))
;; ---
;; $scale: 75 bytes
;;     -0005  test eax,0
;;      0000  push rbp
;;      0001  mov rbp,rsp
;;      0004  mov r10,[rdi+8]
;;      0008  mov r10,[r10]
;;      000b  add r10,0x20
;;      000f  cmp r10,rsp
;;      0012  ja 0049
;;      0018  sub rsp,0x20
;;      001c  mov [rsp],rdi
;;      0020  mov [rsp+8],esi
;;      0024  vmovsd [rsp+0x10],xmm0
;;   @20 i32.add
;;      002a  lea eax,[rsi+1]
;;   @21 local.set 2
;;      002d  mov [rsp+0x18],eax
;;      0031  lea eax,[rsi+1]
;;      0034  vxorpd xmm1,xmm1,xmm1
;;      0038  vcvtsi2sd xmm1,xmm1,eax
;;   @28 f64.mul
;;      003c  vmulsd xmm0,xmm0,xmm1
;;   @29 end
;;      0040  add rsp,0x20
;;      0044  mov rsp,rbp
;;      0047  pop rbp
;;      0048  ret
;;      0049  ud2   ; traps: call stack exhausted
