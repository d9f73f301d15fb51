/* SPDX-License-Identifier: Apache-2.0
 * regex.h - regular expressions compiled to a program, which two machines can run.
 *
 * Syntax: characters, '.', classes like [a-c0] and [^a], groups, '|', and the greedy '*', '+' and '?'. */
#ifndef REGEX_H
#define REGEX_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

#define MAX_CODE 256
#define MAX_CLASSES 16

typedef enum { CHAR, ANY, CLASS, SPLIT, JUMP, MATCH } opcode;

typedef struct {
    opcode op;
    int a, b; /* character or class; for SPLIT both targets, the preferred one first */
} instruction;

typedef struct {
    instruction code[MAX_CODE];
    int size;
    u64 classes[MAX_CLASSES][4];
    int num_classes;
} program;

int compile(program *out, const char *pattern);

/* End of the preferred match that begins at a place, or -1. */
long backtrack(const program *p, const u8 *text, usize at, usize size, u64 *steps);

/* Whether any match begins at a place, by simulating all threads at once. */
int simulate(const program *p, const u8 *text, usize at, usize size);

#endif
