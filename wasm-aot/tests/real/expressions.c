// Reads expressions, makes code for a machine with a stack, and executes it; ends in the middle of a loop when there is nothing left.
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum op { PUSH, ADD, SUB, MUL, DIV, NEG, END };

static struct {
    enum op op;
    long value;
} code[256];
static int length;
static const char *at;

static void emit(enum op op, long value) {
    code[length].op = op;
    code[length++].value = value;
}

static void sum(void);

static void primary(void) {
    while (isspace((unsigned char)*at)) at++;
    if (*at == '(') {
        at++;
        sum();
        at++;
    } else if (*at == '-') {
        at++;
        primary();
        emit(NEG, 0);
    } else {
        emit(PUSH, strtol(at, (char **)&at, 10));
    }
    while (isspace((unsigned char)*at)) at++;
}

static void product(void) {
    primary();
    while (*at == '*' || *at == '/') {
        enum op op = *at++ == '*' ? MUL : DIV;
        primary();
        emit(op, 0);
    }
}

static void sum(void) {
    product();
    while (*at == '+' || *at == '-') {
        enum op op = *at++ == '+' ? ADD : SUB;
        product();
        emit(op, 0);
    }
}

static long run(void) {
    long stack[64], *top = stack;
    for (int i = 0;; i++) {
        switch (code[i].op) {
        case PUSH: *top++ = code[i].value; break;
        case ADD: top--, top[-1] += *top; break;
        case SUB: top--, top[-1] -= *top; break;
        case MUL: top--, top[-1] *= *top; break;
        case DIV: top--, top[-1] = *top ? top[-1] / *top : 0; break;
        case NEG: top[-1] = -top[-1]; break;
        case END: return top[-1];
        }
    }
}

int main(void) {
    const char *lines[] = {"1 + 2 * 3", "(1 + 2) * 3", "-(4 - 10) * (7 / 2)", "100 / (5 - 5) + 8", "((((2))))", 0};
    for (int i = 0;; i++) {
        if (!lines[i]) {
            printf("no more\n");
            exit(3);
        }
        length = 0;
        at = lines[i];
        sum();
        emit(END, 0);
        long value = 0;
        for (int turn = 0; turn < 500; turn++) value += run();
        printf("%s = %ld\n", lines[i], value / 500);
    }
}
