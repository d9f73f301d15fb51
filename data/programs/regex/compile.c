/* SPDX-License-Identifier: Apache-2.0
 * compile.c - one pass of recursive descent that moves code to make room for splits. */
#include "regex.h"

typedef struct {
    program *out;
    const char *at;
    int failed;
} compiler;

static void emit(compiler *c, opcode op, int a, int b) {
    if (c->out->size == MAX_CODE) {
        c->failed = 1;
        return;
    }
    c->out->code[c->out->size++] = (instruction){op, a, b};
}

/* Make room for one instruction; targets at or after it move along. */
static void insert(compiler *c, int place) {
    instruction *code = c->out->code;
    emit(c, MATCH, 0, 0);
    for (int i = c->out->size - 1; i > place; i--) {
        code[i] = code[i - 1];
        if (code[i].op == SPLIT || code[i].op == JUMP) {
            code[i].a += code[i].a >= place;
            code[i].b += code[i].op == SPLIT && code[i].b >= place;
        }
    }
}

static void character_class(compiler *c) {
    int negated = *c->at == '^', number = c->out->num_classes;
    u64 *bits;
    if (number == MAX_CLASSES) {
        c->failed = 1;
        return;
    }
    c->out->num_classes++;
    bits = c->out->classes[number];
    bits[0] = bits[1] = bits[2] = bits[3] = 0;
    c->at += negated;
    while (*c->at && *c->at != ']') {
        u8 first = (u8)*c->at++, last = first;
        if (*c->at == '-' && c->at[1] && c->at[1] != ']') {
            last = (u8)c->at[1];
            c->at += 2;
        }
        for (u32 i = first; i <= last; i++)
            bits[i / 64] |= 1ul << i % 64;
    }
    if (negated)
        for (int i = 0; i < 4; i++)
            bits[i] = ~bits[i];
    c->failed |= *c->at++ != ']';
    emit(c, CLASS, number, 0);
}

static void alternatives(compiler *c);

static void item(compiler *c) {
    int start = c->out->size;
    char character = *c->at++;
    if (character == '(') {
        alternatives(c);
        c->failed |= *c->at++ != ')';
    } else if (character == '[') {
        character_class(c);
    } else {
        emit(c, character == '.' ? ANY : CHAR, (u8)character, 0);
    }
    for (; !c->failed && (*c->at == '*' || *c->at == '+' || *c->at == '?'); c->at++) {
        if (*c->at == '+') {
            emit(c, SPLIT, start, c->out->size + 1);
            continue;
        }
        insert(c, start);
        if (*c->at == '*')
            emit(c, JUMP, start, 0);
        c->out->code[start] = (instruction){SPLIT, start + 1, c->out->size};
    }
}

static void alternatives(compiler *c) {
    int start = c->out->size;
    while (!c->failed && *c->at && *c->at != '|' && *c->at != ')')
        item(c);
    if (!c->failed && *c->at == '|') {
        int leave;
        c->at++;
        insert(c, start);
        leave = c->out->size;
        emit(c, JUMP, 0, 0);
        c->out->code[start] = (instruction){SPLIT, start + 1, leave + 1};
        alternatives(c);
        c->out->code[leave].a = c->out->size;
    }
}

int compile(program *out, const char *pattern) {
    compiler c = {out, pattern, 0};
    out->size = out->num_classes = 0;
    alternatives(&c);
    emit(&c, MATCH, 0, 0);
    return !c.failed && *c.at == 0;
}
