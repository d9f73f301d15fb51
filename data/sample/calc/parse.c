/* SPDX-License-Identifier: Apache-2.0
 * parse.c - the recursive descent parser, one function per precedence level.
 *
 *   program  = statement { ";" statement }
 *   statement = [ name "=" ] choice
 *   choice   = or [ "?" choice ":" choice ]
 *   or, and, equality, relation, sum, product: binary, left to right
 *   unary    = ( "-" | "+" | "!" ) unary | power
 *   power    = primary [ "^" unary ]
 *   primary  = number | name [ "(" arguments ")" ] | "(" statement ")"
 */
#include "calc.h"

enum { MAX_DEPTH = 200 };

typedef struct {
    calc_lexer lexer;
    calc_token current;
    calc_token ahead;
    calc_pool *pool;
    calc_error *error;
    int depth;
} parser;

static calc_node *statement(parser *p);
static calc_node *choice(parser *p);
static calc_node *unary(parser *p);

static calc_token_kind kind(const parser *p) { return p->current.kind; }

static int failed(const parser *p) { return p->error->status != CALC_OK; }

/* Only the first error is kept. */
static calc_node *fail(parser *p, calc_status status) {
    if (!failed(p)) {
        p->error->status = status;
        p->error->pos = p->current.pos;
    }
    return 0;
}

static void advance(parser *p) {
    p->current = p->ahead;
    p->ahead = calc_lex_next(&p->lexer);
}

static int accept(parser *p, calc_token_kind wanted) {
    if (kind(p) != wanted)
        return 0;
    advance(p);
    return 1;
}

static void expect(parser *p, calc_token_kind wanted) {
    if (!accept(p, wanted))
        fail(p, CALC_SYNTAX);
}

static int enter(parser *p) {
    if (++p->depth > MAX_DEPTH)
        fail(p, CALC_TOO_DEEP);
    return !failed(p);
}

static void leave(parser *p) { p->depth--; }

static calc_node *new_node(parser *p, calc_node_kind what) {
    calc_node *n;
    if (p->pool->used == p->pool->capacity)
        return fail(p, CALC_NO_NODES);
    n = &p->pool->nodes[p->pool->used++];
    n->kind = what;
    n->op = kind(p);
    n->pos = p->current.pos;
    n->number = p->current.number;
    n->name = p->current.name;
    n->a = n->b = n->c = 0;
    return n;
}

static calc_node *with_children(calc_node *n, calc_node *a, calc_node *b, calc_node *c) {
    if (n) {
        n->a = a;
        n->b = b;
        n->c = c;
    }
    return n;
}

/* A node made of the current token, which is consumed. */
static calc_node *take(parser *p, calc_node_kind what) {
    calc_node *n = new_node(p, what);
    advance(p);
    return n;
}

static calc_node *arguments(parser *p) {
    calc_node *first = 0, **link = &first, *n;
    if (accept(p, TOK_CLOSE))
        return 0;
    do {
        n = new_node(p, NODE_ARGUMENT);
        if (!n)
            return 0;
        n->a = choice(p);
        *link = n;
        link = &n->b;
    } while (accept(p, TOK_COMMA));
    expect(p, TOK_CLOSE);
    return first;
}

static calc_node *name_or_call(parser *p) {
    calc_node *n = take(p, NODE_VARIABLE);
    if (n && accept(p, TOK_OPEN)) {
        n->kind = NODE_CALL;
        n->a = arguments(p);
    }
    return n;
}

static calc_node *grouped(parser *p) {
    calc_node *n;
    advance(p);
    n = statement(p);
    expect(p, TOK_CLOSE);
    return n;
}

static calc_node *primary(parser *p) {
    switch (kind(p)) {
    case TOK_NUMBER: return take(p, NODE_NUMBER);
    case TOK_NAME: return name_or_call(p);
    case TOK_OPEN: return grouped(p);
    default: return fail(p, CALC_SYNTAX);
    }
}

static calc_node *power(parser *p) {
    calc_node *left = primary(p), *n;
    if (kind(p) != TOK_CARET)
        return left;
    n = take(p, NODE_BINARY);
    return with_children(n, left, unary(p), 0);
}

static calc_node *signed_operand(parser *p) {
    calc_node *n = take(p, NODE_UNARY);
    return with_children(n, unary(p), 0, 0);
}

static int is_sign(calc_token_kind k) { return k == TOK_PLUS || k == TOK_MINUS || k == TOK_NOT; }

static calc_node *unary(parser *p) {
    calc_node *n = 0;
    if (enter(p))
        n = is_sign(kind(p)) ? signed_operand(p) : power(p);
    leave(p);
    return n;
}

typedef calc_node *level(parser *p);

static int one_of(const parser *p, calc_token_kind first, calc_token_kind last) {
    return kind(p) >= first && kind(p) <= last;
}

/* A run of operators first..last, all of one precedence, left to right. */
static calc_node *left_run(parser *p, level *operand, calc_token_kind first, calc_token_kind last) {
    calc_node *left = operand(p);
    while (!failed(p) && one_of(p, first, last)) {
        calc_node *n = take(p, NODE_BINARY);
        left = with_children(n, left, operand(p), 0);
    }
    return left;
}

static calc_node *product(parser *p) { return left_run(p, unary, TOK_STAR, TOK_PERCENT); }
static calc_node *sum(parser *p) { return left_run(p, product, TOK_PLUS, TOK_MINUS); }
static calc_node *relation(parser *p) { return left_run(p, sum, TOK_LESS, TOK_GREATER_EQ); }
static calc_node *equality(parser *p) { return left_run(p, relation, TOK_EQUAL, TOK_NOT_EQ); }
static calc_node *conjunction(parser *p) { return left_run(p, equality, TOK_AND, TOK_AND); }
static calc_node *disjunction(parser *p) { return left_run(p, conjunction, TOK_OR, TOK_OR); }

static calc_node *choice(parser *p) {
    calc_node *test = disjunction(p), *n, *yes, *no;
    if (kind(p) != TOK_QUESTION || failed(p) || !enter(p))
        return test;
    n = take(p, NODE_CHOICE);
    yes = choice(p);
    expect(p, TOK_COLON);
    no = choice(p);
    leave(p);
    return with_children(n, test, yes, no);
}

static calc_node *statement(parser *p) {
    calc_node *n;
    if (kind(p) != TOK_NAME || p->ahead.kind != TOK_ASSIGN)
        return choice(p);
    n = take(p, NODE_ASSIGN);
    advance(p);
    return with_children(n, choice(p), 0, 0);
}

static calc_node *program(parser *p) {
    calc_node *left = statement(p);
    while (!failed(p) && kind(p) == TOK_SEMI) {
        calc_node *n = take(p, NODE_SEQUENCE);
        if (kind(p) == TOK_END)
            break;
        left = with_children(n, left, statement(p), 0);
    }
    return left;
}

static calc_node *run(parser *p, level *top, calc_pool *pool, calc_error *error, const char *src,
                      usize size) {
    calc_node *n;
    error->status = CALC_OK;
    error->pos = 0;
    p->pool = pool;
    p->error = error;
    p->depth = 0;
    calc_lex_init(&p->lexer, src, size);
    p->current = calc_lex_next(&p->lexer);
    p->ahead = calc_lex_next(&p->lexer);
    n = top(p);
    expect(p, TOK_END);
    return failed(p) ? 0 : n;
}

calc_node *calc_parse(calc_pool *pool, const char *src, usize size, calc_error *error) {
    parser p;
    return run(&p, program, pool, error, src, size);
}

/* One expression only: no assignment at the top and no sequence. */
calc_node *calc_parse_expression(calc_pool *pool, const char *src, usize size, calc_error *error) {
    parser p;
    return run(&p, choice, pool, error, src, size);
}
