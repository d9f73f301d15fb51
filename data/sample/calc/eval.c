/* SPDX-License-Identifier: Apache-2.0
 * eval.c - evaluation of a syntax tree, variables, built-in functions and
 * constant folding. No libm: the functions needed are here. */
#include "calc.h"

enum { MAX_ARGUMENTS = 4 };

static double absolute(double x) { return x < 0 ? -x : x; }
static double lesser(double x, double y) { return x < y ? x : y; }
static double greater(double x, double y) { return x > y ? x : y; }
static double clamp(double x, double lo, double hi) { return greater(lo, lesser(x, hi)); }
static double truth(int x) { return x ? 1 : 0; }
static int is_true(double x) { return x != 0; }

/* Beyond 2^52 every double is a whole number already. */
static int fits_integer(double x) { return absolute(x) < 4503599627370496.0; }

static double truncate(double x) { return fits_integer(x) ? (double)(long long)x : x; }

static double floor_of(double x) {
    double t = truncate(x);
    return t > x ? t - 1 : t;
}

static double round_of(double x) { return x < 0 ? -floor_of(0.5 - x) : floor_of(x + 0.5); }

static int is_whole(double x) { return truncate(x) == x; }

static double modulo(double x, double y) { return x - y * floor_of(x / y); }

static double root(double x) {
    double guess = x > 1 ? x : 1, last;
    if (!(x > 0) || x - x != 0)
        return x;
    do {
        last = guess;
        guess = (guess + x / guess) / 2;
    } while (guess < last);
    return guess;
}

static double whole_power(double x, double n) {
    double result = 1;
    for (n = lesser(absolute(n), 4503599627370496.0); n >= 1; n = floor_of(n / 2)) {
        if (modulo(n, 2) == 1)
            result *= x;
        x *= x;
    }
    return result;
}

/* The fraction of the exponent goes bit by bit through square roots. */
static double fraction_power(double x, double f) {
    double result = 1;
    int bit;
    for (bit = 0; bit < 52 && f > 0; bit++) {
        x = root(x);
        f *= 2;
        if (f >= 1) {
            result *= x;
            f -= 1;
        }
    }
    return result;
}

static double power(double x, double y) {
    double n = absolute(y), whole = floor_of(n);
    double result = whole_power(x, whole);
    if (!is_whole(n))
        result *= fraction_power(x, n - whole);
    return y < 0 ? 1 / result : result;
}

static double gcd(double x, double y) {
    x = absolute(truncate(x));
    y = absolute(truncate(y));
    if (!fits_integer(x) || !fits_integer(y))
        return 1;
    while (is_true(y)) {
        double rest = modulo(x, y);
        x = y;
        y = rest;
    }
    return x;
}

static double factorial(double n) {
    double result = 1;
    for (n = lesser(floor_of(n), 171); n > 1; n--)
        result *= n;
    return result;
}

static int failed(const calc_env *env) { return env->error.status != CALC_OK; }

static double fail(calc_env *env, const calc_node *n, calc_status status) {
    if (!failed(env)) {
        env->error.status = status;
        env->error.pos = n->pos;
    }
    return 0;
}

static calc_variable *lookup(const calc_env *env, calc_name name) {
    usize i;
    for (i = 0; i < env->count; i++)
        if (calc_same_name(env->variables[i].name, name))
            return &env->variables[i];
    return 0;
}

static int named(calc_name name, const char *text) {
    calc_name other;
    other.text = text;
    other.length = __builtin_strlen(text);
    return calc_same_name(name, other);
}

static double divide(calc_env *env, const calc_node *n, double x, double y) {
    return is_true(y) ? x / y : fail(env, n, CALC_DIVISION);
}

static double remainder_of(calc_env *env, const calc_node *n, double x, double y) {
    return is_true(y) ? modulo(x, y) : fail(env, n, CALC_DIVISION);
}

static double unary(calc_token_kind op, double x) {
    return op == TOK_MINUS ? -x : op == TOK_NOT ? truth(!is_true(x)) : x;
}

static double binary(calc_env *env, const calc_node *n, double x, double y) {
    switch (n->op) {
    case TOK_PLUS: return x + y;
    case TOK_MINUS: return x - y;
    case TOK_STAR: return x * y;
    case TOK_SLASH: return divide(env, n, x, y);
    case TOK_PERCENT: return remainder_of(env, n, x, y);
    case TOK_CARET: return power(x, y);
    case TOK_LESS: return truth(x < y);
    case TOK_LESS_EQ: return truth(x <= y);
    case TOK_GREATER: return truth(x > y);
    case TOK_GREATER_EQ: return truth(x >= y);
    case TOK_EQUAL: return truth(x == y);
    default: return truth(x != y);
    }
}

static double call1(calc_env *env, const calc_node *n, double x) {
    if (named(n->name, "abs")) return absolute(x);
    if (named(n->name, "floor")) return floor_of(x);
    if (named(n->name, "round")) return round_of(x);
    if (named(n->name, "trunc")) return truncate(x);
    if (named(n->name, "sqrt")) return x < 0 ? fail(env, n, CALC_BAD_ARGUMENTS) : root(x);
    if (named(n->name, "fact")) return factorial(x);
    return fail(env, n, CALC_UNKNOWN_NAME);
}

static double call2(calc_env *env, const calc_node *n, double x, double y) {
    if (named(n->name, "min")) return lesser(x, y);
    if (named(n->name, "max")) return greater(x, y);
    if (named(n->name, "pow")) return power(x, y);
    if (named(n->name, "gcd")) return gcd(x, y);
    if (named(n->name, "mod")) return remainder_of(env, n, x, y);
    return fail(env, n, CALC_UNKNOWN_NAME);
}

static double call3(calc_env *env, const calc_node *n, double x, double y, double z) {
    return named(n->name, "clamp") ? clamp(x, y, z) : fail(env, n, CALC_UNKNOWN_NAME);
}

static double call(calc_env *env, const calc_node *n) {
    double v[MAX_ARGUMENTS] = {0, 0, 0, 0};
    const calc_node *arg;
    int count = 0;
    for (arg = n->a; arg && count < MAX_ARGUMENTS; arg = arg->b)
        v[count++] = calc_eval(env, arg->a);
    switch (count) {
    case 1: return call1(env, n, v[0]);
    case 2: return call2(env, n, v[0], v[1]);
    case 3: return call3(env, n, v[0], v[1], v[2]);
    default: return fail(env, n, CALC_BAD_ARGUMENTS);
    }
}

static double variable(calc_env *env, const calc_node *n) {
    double value;
    return calc_get(env, n->name, &value) ? value : fail(env, n, CALC_UNKNOWN_NAME);
}

static double assign(calc_env *env, const calc_node *n) {
    double value = calc_eval(env, n->a);
    if (!failed(env) && !calc_set(env, n->name, value))
        return fail(env, n, CALC_NO_ROOM);
    return value;
}

static double both(calc_env *env, const calc_node *n) {
    double x = calc_eval(env, n->a);
    if (n->op == TOK_AND)
        return is_true(x) ? truth(is_true(calc_eval(env, n->b))) : 0;
    if (n->op == TOK_OR)
        return is_true(x) ? 1 : truth(is_true(calc_eval(env, n->b)));
    return binary(env, n, x, calc_eval(env, n->b));
}

int calc_set(calc_env *env, calc_name name, double value) {
    calc_variable *v = lookup(env, name);
    if (!v) {
        if (env->count == env->capacity)
            return 0;
        v = &env->variables[env->count++];
        v->name = name;
    }
    v->value = value;
    return 1;
}

int calc_get(const calc_env *env, calc_name name, double *value) {
    const calc_variable *v = lookup(env, name);
    *value = v ? v->value : named(name, "pi") ? 3.14159265358979323846 : 0;
    return v != 0 || named(name, "pi");
}

double calc_eval(calc_env *env, const calc_node *n) {
    if (!n || failed(env))
        return 0;
    switch (n->kind) {
    case NODE_NUMBER: return n->number;
    case NODE_VARIABLE: return variable(env, n);
    case NODE_UNARY: return unary(n->op, calc_eval(env, n->a));
    case NODE_BINARY: return both(env, n);
    case NODE_CHOICE: return calc_eval(env, is_true(calc_eval(env, n->a)) ? n->b : n->c);
    case NODE_ASSIGN: return assign(env, n);
    case NODE_CALL: return call(env, n);
    case NODE_ARGUMENT: return calc_eval(env, n->a);
    default: calc_eval(env, n->a); return calc_eval(env, n->b);
    }
}

static int is_number(const calc_node *n) { return n && n->kind == NODE_NUMBER; }

static int foldable(const calc_node *n) {
    return is_number(n->a) && (n->kind == NODE_UNARY || (n->kind == NODE_BINARY && is_number(n->b)));
}

/* Replace operators on constants by their value; returns how many. */
usize calc_fold(calc_node *n) {
    calc_env none = {0, 0, 0, {CALC_OK, 0}};
    usize folded;
    double value;
    if (!n)
        return 0;
    folded = calc_fold(n->a) + calc_fold(n->b) + calc_fold(n->c);
    if (!foldable(n))
        return folded;
    value = calc_eval(&none, n);
    if (failed(&none))
        return folded;
    n->kind = NODE_NUMBER;
    n->number = value;
    return folded + 1;
}
