/* SPDX-License-Identifier: Apache-2.0
 * lex.c - the tokenizer: numbers, names, operators, comments. */
#include "calc.h"

static int in_range(int c, int lo, int hi) { return c >= lo && c <= hi; }

static int is_digit(int c) { return in_range(c, '0', '9'); }

static int is_letter(int c) { return in_range(c, 'a', 'z') || in_range(c, 'A', 'Z') || c == '_'; }

static int is_name_part(int c) { return is_letter(c) || is_digit(c); }

static int is_blank(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

static int hex_value(int c) {
    if (is_digit(c))
        return c - '0';
    if (in_range(c, 'a', 'f'))
        return c - 'a' + 10;
    return in_range(c, 'A', 'F') ? c - 'A' + 10 : -1;
}

static int peek_at(const calc_lexer *lx, usize ahead) {
    return lx->pos + ahead < lx->size ? (unsigned char)lx->src[lx->pos + ahead] : -1;
}

static int peek(const calc_lexer *lx) { return peek_at(lx, 0); }

static void bump(calc_lexer *lx) { lx->pos++; }

static int accept(calc_lexer *lx, int c) {
    if (peek(lx) != c)
        return 0;
    bump(lx);
    return 1;
}

static void skip_line(calc_lexer *lx) {
    while (peek(lx) >= 0 && peek(lx) != '\n')
        bump(lx);
}

static void skip_blanks(calc_lexer *lx) {
    for (;;) {
        if (is_blank(peek(lx)))
            bump(lx);
        else if (peek(lx) == '#')
            skip_line(lx);
        else
            return;
    }
}

static calc_token start_token(const calc_lexer *lx) {
    calc_token t;
    t.kind = TOK_END;
    t.pos = lx->pos;
    t.name.text = lx->src + lx->pos;
    t.name.length = 0;
    t.number = 0;
    return t;
}

static void end_token(const calc_lexer *lx, calc_token *t, calc_token_kind kind) {
    t->kind = kind;
    t->name.length = lx->pos - t->pos;
}

static double scale10(double value, int exponent) {
    double factor = 10, result = 1;
    unsigned n = exponent < 0 ? 0u - (unsigned)exponent : (unsigned)exponent;
    for (; n; n >>= 1) {
        if (n & 1)
            result *= factor;
        factor *= factor;
    }
    return exponent < 0 ? value / result : value * result;
}

static double digits(calc_lexer *lx, double value, int *count) {
    for (; is_digit(peek(lx)); bump(lx), ++*count)
        value = value * 10 + (peek(lx) - '0');
    return value;
}

/* An exponent only counts if digits follow: "2e" is 2 and then the name e. */
static int exponent_ahead(const calc_lexer *lx) {
    int c = peek(lx), next = peek_at(lx, 1);
    if (c != 'e' && c != 'E')
        return 0;
    if (next == '+' || next == '-')
        next = peek_at(lx, 2);
    return is_digit(next);
}

static int exponent(calc_lexer *lx) {
    int negative, count = 0;
    double value;
    bump(lx);
    negative = accept(lx, '-');
    if (!negative)
        accept(lx, '+');
    value = digits(lx, 0, &count);
    if (value > 9999)
        value = 9999;
    return negative ? -(int)value : (int)value;
}

static double decimal_number(calc_lexer *lx) {
    int whole = 0, fraction = 0, power = 0;
    double value = digits(lx, 0, &whole);
    if (accept(lx, '.'))
        value = digits(lx, value, &fraction);
    if (exponent_ahead(lx))
        power = exponent(lx);
    return value == 0 ? 0 : scale10(value, power - fraction);
}

static int hex_ahead(const calc_lexer *lx) {
    return peek(lx) == '0' && peek_at(lx, 1) == 'x' && hex_value(peek_at(lx, 2)) >= 0;
}

static double hex_number(calc_lexer *lx) {
    double value = 0;
    bump(lx);
    bump(lx);
    for (; hex_value(peek(lx)) >= 0; bump(lx))
        value = value * 16 + hex_value(peek(lx));
    return value;
}

static int number_ahead(const calc_lexer *lx) {
    return is_digit(peek(lx)) || (peek(lx) == '.' && is_digit(peek_at(lx, 1)));
}

static void skip_name(calc_lexer *lx) {
    while (is_name_part(peek(lx)))
        bump(lx);
}

static calc_token_kind either(calc_lexer *lx, int c, calc_token_kind yes, calc_token_kind no) {
    return accept(lx, c) ? yes : no;
}

static calc_token_kind operator_kind(calc_lexer *lx) {
    int c = peek(lx);
    bump(lx);
    switch (c) {
    case '+': return TOK_PLUS;
    case '-': return TOK_MINUS;
    case '*': return either(lx, '*', TOK_CARET, TOK_STAR);
    case '/': return TOK_SLASH;
    case '%': return TOK_PERCENT;
    case '^': return TOK_CARET;
    case '<': return either(lx, '=', TOK_LESS_EQ, TOK_LESS);
    case '>': return either(lx, '=', TOK_GREATER_EQ, TOK_GREATER);
    case '=': return either(lx, '=', TOK_EQUAL, TOK_ASSIGN);
    case '!': return either(lx, '=', TOK_NOT_EQ, TOK_NOT);
    case '&': return either(lx, '&', TOK_AND, TOK_ERROR);
    case '|': return either(lx, '|', TOK_OR, TOK_ERROR);
    case '?': return TOK_QUESTION;
    case ':': return TOK_COLON;
    case ',': return TOK_COMMA;
    case ';': return TOK_SEMI;
    case '(': return TOK_OPEN;
    case ')': return TOK_CLOSE;
    default: return TOK_ERROR;
    }
}

void calc_lex_init(calc_lexer *lx, const char *src, usize size) {
    lx->src = src;
    lx->size = size;
    lx->pos = 0;
}

calc_token calc_lex_next(calc_lexer *lx) {
    calc_token t;
    skip_blanks(lx);
    t = start_token(lx);
    if (peek(lx) < 0)
        return t;
    if (number_ahead(lx)) {
        t.number = hex_ahead(lx) ? hex_number(lx) : decimal_number(lx);
        end_token(lx, &t, TOK_NUMBER);
    } else if (is_letter(peek(lx))) {
        skip_name(lx);
        end_token(lx, &t, TOK_NAME);
    } else {
        calc_token_kind kind = operator_kind(lx);
        end_token(lx, &t, kind);
    }
    return t;
}

usize calc_lex_count(const char *src, usize size) {
    calc_lexer lx;
    usize n = 0;
    calc_lex_init(&lx, src, size);
    while (calc_lex_next(&lx).kind != TOK_END)
        n++;
    return n;
}

/* Are all tokens well formed? If not, where is the first bad one? */
int calc_lex_check(const char *src, usize size, usize *bad) {
    calc_lexer lx;
    calc_token t;
    calc_lex_init(&lx, src, size);
    do {
        t = calc_lex_next(&lx);
    } while (t.kind != TOK_END && t.kind != TOK_ERROR);
    *bad = t.pos;
    return t.kind == TOK_END;
}
