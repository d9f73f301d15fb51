/* SPDX-License-Identifier: Apache-2.0
 * match.c - backtracking with an explicit stack, and a simulation of all threads at once. */
#include "regex.h"

#define MAX_STACK 4096

static int accepts(const program *p, const instruction *i, u8 c) {
    switch (i->op) {
    case CHAR: return i->a == c;
    case ANY: return c != '\n';
    case CLASS: return (int)(p->classes[i->a][c / 64] >> c % 64 & 1);
    default: return 0;
    }
}

long backtrack(const program *p, const u8 *text, usize at, usize size, u64 *steps) {
    struct {
        int code;
        usize at;
    } stack[MAX_STACK];
    int top = 0, pc = 0;
    for (;;) {
        const instruction *now = &p->code[pc];
        ++*steps;
        switch (now->op) {
        case MATCH: return (long)at;
        case JUMP: pc = now->a; continue;
        case SPLIT:
            if (top == MAX_STACK)
                return -2;
            stack[top].code = now->b;
            stack[top++].at = at;
            pc = now->a;
            continue;
        default:
            if (at < size && accepts(p, now, text[at])) {
                at++;
                pc++;
                continue;
            }
        }
        if (top == 0)
            return -1;
        pc = stack[--top].code;
        at = stack[top].at;
    }
}

typedef struct {
    int list[MAX_CODE];
    int size;
} threads;

/* Follow jumps and splits; marks hold the number of the step that a place was last reached in. */
static int add_thread(const program *p, threads *t, u32 *marks, u32 step, int pc) {
    if (marks[pc] == step)
        return 0;
    marks[pc] = step;
    switch (p->code[pc].op) {
    case MATCH: return 1;
    case JUMP: return add_thread(p, t, marks, step, p->code[pc].a);
    case SPLIT:
        return add_thread(p, t, marks, step, p->code[pc].a) | add_thread(p, t, marks, step, p->code[pc].b);
    default: t->list[t->size++] = pc; return 0;
    }
}

int simulate(const program *p, const u8 *text, usize at, usize size) {
    static u32 marks[MAX_CODE], step; /* steps are numbered on from call to call */
    threads one, two, *now = &one, *next = &two, *swapped;
    step++;
    now->size = 0;
    if (add_thread(p, now, marks, step, 0))
        return 1;
    for (; at < size && now->size > 0; at++) {
        u8 c = text[at];
        step++;
        next->size = 0;
        for (int i = 0; i < now->size; i++) {
            int pc = now->list[i];
            if (accepts(p, &p->code[pc], c) && add_thread(p, next, marks, step, pc + 1))
                return 1;
        }
        swapped = now, now = next, next = swapped;
    }
    return 0;
}
