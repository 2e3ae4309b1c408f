/* A machine whose instructions are functions of a table: every step is a call through it. */
#include "work.h"
#include <stdio.h>

struct machine {
    uint32_t registers[8], steps;
};
typedef void instruction(struct machine *, uint32_t);

#define WHERE(word) (machine->registers[(word) & 7])
static void add(struct machine *machine, uint32_t word) { WHERE(word) += WHERE(word >> 3); }
static void subtract(struct machine *machine, uint32_t word) { WHERE(word) -= WHERE(word >> 3) + 1; }
static void mix(struct machine *machine, uint32_t word) { WHERE(word) ^= WHERE(word >> 3) << 7; }
static void turn(struct machine *machine, uint32_t word) { WHERE(word) = WHERE(word) >> 5 | WHERE(word) << 27; }
static void swap(struct machine *machine, uint32_t word) {
    uint32_t kept = WHERE(word);
    WHERE(word) = WHERE(word >> 3), WHERE(word >> 3) = kept;
}
static void load(struct machine *machine, uint32_t word) { WHERE(word) = word * 2654435761u; }
static void count(struct machine *machine, uint32_t word) { machine->steps += word & 1; }
static void multiply(struct machine *machine, uint32_t word) { WHERE(word) *= WHERE(word >> 3) | 1; }

static instruction *volatile const instructions[8] = {add, subtract, mix, turn, swap, load, count, multiply};

int main(int argc, char **argv) {
    static uint32_t program[4096];
    struct machine machine = {{1, 2, 3, 4, 5, 6, 7, 8}, 0};
    uint32_t chance = 2463534242u, sum = 0;
    for (int i = 0; i < 4096; i++) chance ^= chance << 13, chance ^= chance >> 17, chance ^= chance << 5, program[i] = chance;
    for (int left = rounds(argc, argv, 60000); left > 0; left--)
        for (int at = 0; at < 4096; at++) instructions[program[at] >> 29](&machine, program[at]);
    for (int i = 0; i < 8; i++) sum = sum * 31 + machine.registers[i];
    printf("%08x %u\n", sum, machine.steps);
    return 0;
}
