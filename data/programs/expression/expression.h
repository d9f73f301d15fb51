/* SPDX-License-Identifier: Apache-2.0
 * expression.h - integer expressions: text to tree, tree to value, tree to stack code. */
#ifndef EXPRESSION_H
#define EXPRESSION_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

#define NUM_VARIABLES 8

enum kind { NUMBER, VARIABLE, NEGATE, INVERT, ADD, SUB, MUL, DIV, MOD, SHL, SHR, AND, XOR, OR };

typedef struct node {
    enum kind kind;
    u64 value; /* of a number; index of a variable */
    struct node *left, *right;
} node;

typedef struct {
    node *nodes;
    usize used, capacity;
} pool;

typedef struct {
    u8 kind;
    u64 value;
} instruction;

node *parse(pool *pool, const char *text, const char **error);
u64 apply(enum kind kind, u64 a, u64 b);
u64 evaluate(const node *tree, const u64 *variables);
usize emit(const node *tree, instruction *code);
u64 run(const instruction *code, usize size, const u64 *variables);

#endif
