/* SPDX-License-Identifier: Apache-2.0
 * main.c - random expressions, parsed once and evaluated often, in both ways. */
#include "expression.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define MAX_TEXT 2000
#define MAX_NODES 1000
#define SHOWN 8
#define EXPRESSIONS 1000
#define EVALUATIONS 6

static u64 random_state = 4;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

static char *write_number(char *to, u32 value) {
    char digits[12];
    int count = 0;
    do
        digits[count++] = (char)('0' + value % 10);
    while (value /= 10);
    while (count > 0)
        *to++ = digits[--count];
    return to;
}

static char *write_random(char *to, const char *end, int depth) {
    static const char *const operators[] = {"+", "-", "*", "/", "%", "<<", ">>", "&", "^", "|"};
    u32 choice = next_random() % 16;
    if (depth == 0 || end - to < 200 || choice == 0) {
        if (next_random() % 2)
            return write_number(to, next_random() % 1000);
        *to++ = (char)('a' + next_random() % NUM_VARIABLES);
        return to;
    }
    if (choice == 1) {
        *to++ = next_random() % 2 ? '-' : '~';
        return write_random(to, end, depth - 1);
    }
    int enclosed = choice < 8;
    if (enclosed)
        *to++ = '(';
    to = write_random(to, end, depth - 1);
    *to++ = ' ';
    for (const char *name = operators[next_random() % 10]; *name;)
        *to++ = *name++;
    *to++ = ' ';
    to = write_random(to, end, depth - 1);
    if (enclosed)
        *to++ = ')';
    return to;
}

int main(void) {
    char *text = malloc(MAX_TEXT);
    instruction *code = malloc(MAX_NODES * sizeof *code);
    pool pool = {malloc(MAX_NODES * sizeof *pool.nodes), 0, MAX_NODES};
    u64 variables[NUM_VARIABLES], sum = 0, differences = 0, num_nodes = 0;
    const char *error;
    if (!text || !code || !pool.nodes)
        return 1;
    for (int i = 0; i < EXPRESSIONS; i++) {
        *write_random(text, text + MAX_TEXT, i < SHOWN ? 3 : 6) = 0;
        pool.used = 0;
        node *tree = parse(&pool, text, &error);
        if (error) {
            printf("error at %s\n", error);
            return 1;
        }
        usize size = emit(tree, code);
        num_nodes += size;
        for (int k = 0; k < NUM_VARIABLES; k++)
            variables[k] = (u64)k + 1;
        if (i < SHOWN)
            printf("%s = %lu\n", text, evaluate(tree, variables));
        for (int n = 0; n < EVALUATIONS; n++) {
            u64 value = evaluate(tree, variables);
            differences += value != run(code, size, variables);
            variables[n % NUM_VARIABLES] = value;
            sum = sum * 31 + value;
        }
    }
    printf("nodes %lu\nsum %016lx\ndifferences %lu\n", num_nodes, sum, differences);
    free(text);
    free(code);
    free(pool.nodes);
    return differences != 0;
}
