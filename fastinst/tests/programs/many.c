/* As many functions as FUNCTIONS says, each called as often as the first argument says. They do nothing, and are
   written as the compiler writes them, by the assembler, since a compiler would take minutes. */
#include <stdio.h>
#include <stdlib.h>

#define TEXT(macro) #macro
#define STRING(macro) TEXT(macro)

void all(void);

asm(".text\n"
    ".altmacro\n"
    ".set number, 0\n"
    ".pushsection .text.all\n"
    ".globl all\n"
    ".type all, @function\n"
    "all:\n"
    "  sub $8, %rsp\n"
    ".popsection\n"
    ".macro function number\n"
    "  .type f\\number, @function\n"
    "f\\number:\n"
    "  push %rbp\n"
    "  mov %rsp, %rbp\n"
    "  mov 8(%rbp), %rsi\n"
    "  lea f\\number(%rip), %rdi\n"
    "  call __cyg_profile_func_enter@PLT\n"
    "  mov 8(%rbp), %rsi\n"
    "  lea f\\number(%rip), %rdi\n"
    "  call __cyg_profile_func_exit@PLT\n"
    "  pop %rbp\n"
    "  ret\n"
    "  .size f\\number, . - f\\number\n"
    "  .pushsection .text.all\n"
    "  call f\\number\n"
    "  .popsection\n"
    ".endm\n"
    ".rept " STRING(FUNCTIONS) "\n"
    "  function %number\n"
    "  .set number, number + 1\n"
    ".endr\n"
    ".noaltmacro\n"
    ".pushsection .text.all\n"
    "  add $8, %rsp\n"
    "  ret\n"
    "  .size all, . - all\n"
    ".popsection\n");

int main(int count, char **words) {
    int times = count > 1 ? atoi(words[1]) : 5;
    for (int time = 0; time < times; time++)
        all();
    puts("done");
    return 0;
}
