/* SPDX-License-Identifier: Apache-2.0
 * calc.h - a small expression calculator: tokens, syntax tree, evaluation.
 *
 * All memory is given by the caller: the source text, an array of tree nodes,
 * an array of variables. Names are never copied, they point into the source.
 */
#ifndef CALC_H
#define CALC_H

typedef __SIZE_TYPE__ usize;

typedef enum {
    TOK_END, TOK_ERROR, TOK_NUMBER, TOK_NAME,
    TOK_PLUS, TOK_MINUS, TOK_STAR, TOK_SLASH, TOK_PERCENT, TOK_CARET, TOK_NOT,
    TOK_LESS, TOK_LESS_EQ, TOK_GREATER, TOK_GREATER_EQ, TOK_EQUAL, TOK_NOT_EQ,
    TOK_AND, TOK_OR, TOK_QUESTION, TOK_COLON, TOK_ASSIGN, TOK_COMMA, TOK_SEMI,
    TOK_OPEN, TOK_CLOSE
} calc_token_kind;

typedef struct {
    const char *text;
    usize length;
} calc_name;

typedef struct {
    calc_token_kind kind;
    usize pos; /* offset in the source */
    calc_name name;
    double number;
} calc_token;

typedef struct {
    const char *src;
    usize size;
    usize pos;
} calc_lexer;

typedef enum {
    NODE_NUMBER, NODE_VARIABLE, NODE_UNARY, NODE_BINARY, NODE_CHOICE,
    NODE_ASSIGN, NODE_CALL, NODE_ARGUMENT, NODE_SEQUENCE
} calc_node_kind;

typedef struct calc_node calc_node;
struct calc_node {
    calc_node_kind kind;
    calc_token_kind op; /* unary and binary nodes */
    usize pos;
    double number;
    calc_name name; /* variable, assignment, call */
    calc_node *a, *b, *c; /* argument lists: a = value, b = next argument */
};

typedef enum {
    CALC_OK, CALC_SYNTAX, CALC_NO_NODES, CALC_TOO_DEEP,
    CALC_UNKNOWN_NAME, CALC_BAD_ARGUMENTS, CALC_DIVISION, CALC_NO_ROOM
} calc_status;

typedef struct {
    calc_status status;
    usize pos;
} calc_error;

typedef struct {
    calc_node *nodes;
    usize used, capacity;
} calc_pool;

typedef struct {
    calc_name name;
    double value;
} calc_variable;

typedef struct {
    calc_variable *variables;
    usize count, capacity;
    calc_error error;
} calc_env;

/* lex.c */
void calc_lex_init(calc_lexer *lx, const char *src, usize size);
calc_token calc_lex_next(calc_lexer *lx);
usize calc_lex_count(const char *src, usize size);
int calc_lex_check(const char *src, usize size, usize *bad);

/* parse.c */
calc_node *calc_parse(calc_pool *pool, const char *src, usize size, calc_error *error);
calc_node *calc_parse_expression(calc_pool *pool, const char *src, usize size, calc_error *error);

/* eval.c */
int calc_set(calc_env *env, calc_name name, double value);
int calc_get(const calc_env *env, calc_name name, double *value);
double calc_eval(calc_env *env, const calc_node *node);
usize calc_fold(calc_node *node);

static inline int calc_same_name(calc_name x, calc_name y) {
    usize i;
    if (x.length != y.length)
        return 0;
    for (i = 0; i < x.length; i++)
        if (x.text[i] != y.text[i])
            return 0;
    return 1;
}

#endif
