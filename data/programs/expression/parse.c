/* SPDX-License-Identifier: Apache-2.0
 * parse.c - precedence climbing over the text itself. */
#include "expression.h"

typedef struct {
    const char *at;
    pool *pool;
    int failed;
} parser;

static node *make(parser *p, enum kind kind, u64 value, node *left, node *right) {
    node *made;
    if (p->pool->used == p->pool->capacity) {
        p->failed = 1;
        return p->pool->nodes;
    }
    made = &p->pool->nodes[p->pool->used++];
    made->kind = kind;
    made->value = value;
    made->left = left;
    made->right = right;
    return made;
}

static void skip_spaces(parser *p) {
    while (*p->at == ' ')
        p->at++;
}

static node *binary(parser *p, int lowest);

static node *primary(parser *p) {
    skip_spaces(p);
    char c = *p->at;
    if (c >= '0' && c <= '9') {
        u64 value = 0;
        do
            value = value * 10 + (u64)(*p->at++ - '0');
        while (*p->at >= '0' && *p->at <= '9');
        return make(p, NUMBER, value, 0, 0);
    }
    if (c >= 'a' && c < 'a' + NUM_VARIABLES) {
        p->at++;
        return make(p, VARIABLE, (u64)(c - 'a'), 0, 0);
    }
    if (c == '-' || c == '~') {
        p->at++;
        return make(p, c == '-' ? NEGATE : INVERT, 0, primary(p), 0);
    }
    if (c == '(') {
        p->at++;
        node *inside = binary(p, 1);
        skip_spaces(p);
        if (*p->at == ')')
            p->at++;
        else
            p->failed = 1;
        return inside;
    }
    p->failed = 1;
    return make(p, NUMBER, 0, 0, 0);
}

/* Precedence of the operator at the parser's place, 0 if there is none. */
static int operator_here(const parser *p, enum kind *kind, int *width) {
    *width = 1;
    switch (*p->at) {
    case '|': *kind = OR; return 1;
    case '^': *kind = XOR; return 2;
    case '&': *kind = AND; return 3;
    case '<':
    case '>':
        if (p->at[1] != p->at[0])
            return 0;
        *kind = *p->at == '<' ? SHL : SHR;
        *width = 2;
        return 4;
    case '+': *kind = ADD; return 5;
    case '-': *kind = SUB; return 5;
    case '*': *kind = MUL; return 6;
    case '/': *kind = DIV; return 6;
    case '%': *kind = MOD; return 6;
    default: return 0;
    }
}

static node *binary(parser *p, int lowest) {
    node *left = primary(p);
    for (;;) {
        enum kind kind = ADD;
        int width, precedence;
        skip_spaces(p);
        precedence = operator_here(p, &kind, &width);
        if (precedence < lowest || precedence == 0 || p->failed)
            return left;
        p->at += width;
        left = make(p, kind, 0, left, binary(p, precedence + 1));
    }
}

node *parse(pool *pool, const char *text, const char **error) {
    parser p = {text, pool, 0};
    node *tree = binary(&p, 1);
    *error = p.failed || *p.at ? p.at : 0;
    return tree;
}
