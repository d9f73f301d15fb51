/* SPDX-License-Identifier: Apache-2.0
 * main.c - four programs for the machine. */
#include "vm.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define WORDS 65536
#define NUMBER(n) (n) / 256, (n) % 256

/* Primes below r1 by the sieve; memory is zero. */
static const instruction sieve[] = {
    {SET, 1, NUMBER(30000)},
    {SET, 2, NUMBER(2)}, /* candidate */
    {SET, 3, NUMBER(0)}, /* count */
    /* 3 */ {JLESS, 0, 2, 1},
    {JUMP, 0, NUMBER(6)},
    {HALT, 3, 0, 0},
    /* 6 */ {LOAD, 4, 2, 0},
    {JZERO, 4, NUMBER(10)},
    /* 8 */ {ADDI, 2, 2, 1},
    {JUMP, 0, NUMBER(3)},
    /* 10 */ {ADDI, 3, 3, 1},
    {MUL, 5, 2, 2},
    {SET, 6, NUMBER(1)},
    /* 13 */ {JLESS, 0, 5, 1},
    {JUMP, 0, NUMBER(16)},
    {JUMP, 0, NUMBER(8)},
    /* 16 */ {STORE, 6, 5, 0},
    {ADD, 5, 5, 2},
    {JUMP, 0, NUMBER(13)},
};

/* Fibonacci number by recursion: argument and result in the callee's r0. */
static const instruction fibonacci[] = {
    {SET, 1, NUMBER(21)},
    {CALL, 1, NUMBER(3)},
    {HALT, 1, 0, 0},
    /* 3 */ {SET, 1, NUMBER(2)},
    {JLESS, 0, 0, 1},
    {RETURN, 0, 0, 0},
    {ADDI, 2, 0, 255},
    {CALL, 2, NUMBER(3)},
    {ADDI, 3, 0, 254},
    {CALL, 3, NUMBER(3)},
    {ADD, 0, 2, 3},
    {RETURN, 0, 0, 0},
};

/* Start below r1 of the longest Collatz sequence, times 1000, plus its length. */
static const instruction collatz[] = {
    {SET, 1, NUMBER(1500)},
    {SET, 2, NUMBER(1)},  /* start */
    {SET, 3, NUMBER(0)},  /* longest */
    {SET, 4, NUMBER(0)},  /* its start */
    {SET, 5, NUMBER(1)},
    {SET, 6, NUMBER(3)},
    /* 6 */ {JLESS, 0, 2, 1},
    {JUMP, 0, NUMBER(12)},
    {SET, 7, NUMBER(1000)},
    {MUL, 4, 4, 7},
    {ADD, 4, 4, 3},
    {HALT, 4, 0, 0},
    /* 12 */ {MOVE, 8, 2, 0},
    {SET, 9, NUMBER(1)}, /* length */
    /* 14 */ {JEQUAL, 0, 8, 5},
    {JUMP, 0, NUMBER(24)},
    {ADDI, 9, 9, 1},
    {AND, 10, 8, 5},
    {JZERO, 10, NUMBER(22)},
    {MUL, 8, 8, 6},
    {ADDI, 8, 8, 1},
    {JUMP, 0, NUMBER(14)},
    /* 22 */ {SHR, 8, 8, 5},
    {JUMP, 0, NUMBER(14)},
    /* 24 */ {JLESS, 0, 3, 9},
    {JUMP, 0, NUMBER(28)},
    /* 26 */ {ADDI, 2, 2, 1},
    {JUMP, 0, NUMBER(6)},
    /* 28 */ {MOVE, 3, 9, 0},
    {MOVE, 4, 2, 0},
    {JUMP, 0, NUMBER(26)},
};

/* Sum of the greatest common divisors of all pairs up to r1, by a called function. */
static const instruction divisors[] = {
    {SET, 1, NUMBER(80)},
    {SET, 2, NUMBER(1)},
    {SET, 5, NUMBER(0)},
    /* 3 */ {SET, 3, NUMBER(1)},
    /* 4 */ {MOVE, 6, 2, 0},
    {MOVE, 7, 3, 0},
    {CALL, 6, NUMBER(17)},
    {ADD, 5, 5, 6},
    {JEQUAL, 0, 3, 1},
    {JUMP, 0, NUMBER(12)},
    {ADDI, 3, 3, 1},
    {JUMP, 0, NUMBER(4)},
    /* 12 */ {JEQUAL, 0, 2, 1},
    {JUMP, 0, NUMBER(16)},
    {ADDI, 2, 2, 1},
    {JUMP, 0, NUMBER(3)},
    /* 16 */ {HALT, 5, 0, 0},
    /* 17 */ {JZERO, 1, NUMBER(22)},
    {REM, 2, 0, 1},
    {MOVE, 0, 1, 0},
    {MOVE, 1, 2, 0},
    {JUMP, 0, NUMBER(17)},
    /* 22 */ {RETURN, 0, 0, 0},
};

static int show(const char *name, const instruction *code, i64 *memory) {
    outcome out = execute(code, memory, WORDS, 100000000);
    printf("%s %ld in %lu steps, %lu loads, %lu stores, %lu taken, trace %016lx%s\n", name, out.result, out.steps,
           out.loads, out.stores, out.taken, out.trace, out.failed ? ", failed" : "");
    return out.failed;
}

int main(void) {
    i64 *memory = malloc(WORDS * sizeof *memory);
    int failed;
    if (!memory)
        return 1;
    for (usize i = 0; i < WORDS; i++)
        memory[i] = 0;
    failed = show("primes", sieve, memory);
    failed |= show("fibonacci", fibonacci, memory);
    failed |= show("collatz", collatz, memory);
    failed |= show("divisors", divisors, memory);
    free(memory);
    return failed;
}
