/* SPDX-License-Identifier: Apache-2.0
 * evaluate.c - two ways to a value: recursion over the tree, and a stack machine. */
#include "expression.h"

/* Division by zero gives zero; shifts take the low six bits. */
u64 apply(enum kind kind, u64 a, u64 b) {
    switch (kind) {
    case ADD: return a + b;
    case SUB: return a - b;
    case MUL: return a * b;
    case DIV: return b ? a / b : 0;
    case MOD: return b ? a % b : 0;
    case SHL: return a << (b & 63);
    case SHR: return a >> (b & 63);
    case AND: return a & b;
    case XOR: return a ^ b;
    case OR: return a | b;
    default: return 0;
    }
}

u64 evaluate(const node *tree, const u64 *variables) {
    switch (tree->kind) {
    case NUMBER: return tree->value;
    case VARIABLE: return variables[tree->value];
    case NEGATE: return -evaluate(tree->left, variables);
    case INVERT: return ~evaluate(tree->left, variables);
    default: return apply(tree->kind, evaluate(tree->left, variables), evaluate(tree->right, variables));
    }
}

usize emit(const node *tree, instruction *code) {
    usize size = 0;
    if (tree->left)
        size += emit(tree->left, code);
    if (tree->right)
        size += emit(tree->right, code + size);
    code[size].kind = (u8)tree->kind;
    code[size].value = tree->value;
    return size + 1;
}

/* The top of the stack is kept in a variable of its own. */
u64 run(const instruction *code, usize size, const u64 *variables) {
    u64 stack[256], top = 0, under, *rest = stack;
    for (const instruction *at = code, *end = code + size; at < end; at++) {
        switch (at->kind) {
        case NUMBER: *rest++ = top, top = at->value; break;
        case VARIABLE: *rest++ = top, top = variables[at->value]; break;
        case NEGATE: top = -top; break;
        case INVERT: top = ~top; break;
        case ADD: top += *--rest; break;
        case SUB: top = *--rest - top; break;
        case MUL: top *= *--rest; break;
        case DIV: under = *--rest, top = top ? under / top : 0; break;
        case MOD: under = *--rest, top = top ? under % top : 0; break;
        case SHL: top = *--rest << (top & 63); break;
        case SHR: top = *--rest >> (top & 63); break;
        case AND: top &= *--rest; break;
        case XOR: top ^= *--rest; break;
        case OR: top |= *--rest; break;
        }
    }
    return top;
}
