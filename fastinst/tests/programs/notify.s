# A program that passes two places of a notify table, as compilers write it: 300 times, and 100 times.
# The probe bytes of the first are an instruction of the program's own; those of the second are nops.
        .text
        .globl  main
        .type   main, @function
main:
        .cfi_startproc
        pushq   %rbx
        .cfi_def_cfa_offset 16
        .cfi_offset %rbx, -16
        movl    $300, %ebx
1:
.Lfirst:
        movl    $0x51234567, %eax
.Lfirst_end:
        testl   $1, %ebx
        jz      2f
        cmpl    $200, %ebx
        jg      2f
.Lsecond:
        nop
        nop
        nop
        nop
        nop
        nop
.Lsecond_end:
        addl    $1, %eax
2:
        subl    $1, %ebx
        jnz     1b
        xorl    %eax, %eax
        popq    %rbx
        .cfi_def_cfa_offset 8
        ret
        .cfi_endproc
        .size   main, .-main

        .section .itt_notify_tab, "aw", @progbits
.Ltable:
        .ascii  ".itt_notify_tab"
        .byte   0
        .short  0x101
        .short  2
        .long   .Lstrings-.Ltable
        .long   .Lexpressions-.Lstrings
        .long   .Lexpressions-.Ltable
        .long   .Lend-.Lexpressions
        .quad   .Lfirst
        .long   .Lfirst_end-.Lfirst
        .long   0
        .long   0
        .quad   .Lsecond
        .long   .Lsecond_end-.Lsecond
        .long   .Ltext-.Lstrings
        .long   0
.Lstrings:
        .asciz  "loop"
.Ltext:
        .asciz  "odd numbers"
.Lexpressions:
        .byte   1, 0x50
.Lend:
        .section .note.GNU-stack, "", @progbits
