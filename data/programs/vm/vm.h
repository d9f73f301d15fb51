/* SPDX-License-Identifier: Apache-2.0
 * vm.h - a machine with sixteen registers per call and one array of words. */
#ifndef VM_H
#define VM_H

typedef unsigned char u8;
typedef long i64;
typedef unsigned long u64;
typedef unsigned long usize;

typedef enum {
    HALT,   /* result in register a */
    SET,    /* a = b * 256 + c */
    MOVE,   /* a = b */
    ADD,    /* a = b + c, and so on */
    SUB,
    MUL,
    DIV,
    REM,
    AND,
    XOR,
    SHL,
    SHR,
    ADDI,   /* a = b + signed c */
    LOAD,   /* a = memory[b + c] */
    STORE,  /* memory[b + c] = a */
    JUMP,   /* to the target in b * 256 + c */
    JZERO,  /* if a is zero */
    JLESS,  /* skip the next instruction unless b < c */
    JEQUAL, /* skip the next instruction unless b == c */
    CALL,   /* target in b * 256 + c; registers from a on become the callee's */
    RETURN  /* a goes to the callee's register 0, which is the caller's register a of the call */
} opcode;

typedef struct {
    u8 op, a, b, c;
} instruction;

typedef struct {
    i64 result;
    u64 steps, loads, stores, taken; /* instructions, and of these loads, stores and taken branches */
    u64 trace;                       /* hash of the sequence of results */
    int failed;                      /* out of steps, of memory or of stack */
} outcome;

outcome execute(const instruction *code, i64 *memory, usize memory_size, u64 max_steps);

#endif
