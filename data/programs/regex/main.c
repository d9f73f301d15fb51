/* SPDX-License-Identifier: Apache-2.0
 * main.c - patterns searched in a random text, by both machines. */
#include "regex.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define SIZE 3500u

static u64 random_state = 9;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

static const char *const patterns[] = {
    "abc",
    "a[bc]+d",
    "(ab|ba)+c?",
    "[a-c]*d[^ \n]e",
    "(a|b|ab)*c",
    ".*e",
    "(0|1[01]*)",
    "([a-e]+ )?[a-e]+\n",
    "(a?b?c?d)+e",
    "((a|b)(c|d))*e*f",
};

static int search(const char *pattern, const u8 *text) {
    static program p;
    u64 found = 0, covered = 0, starts = 0, steps = 0, differences = 0;
    if (!compile(&p, pattern))
        return 0;
    for (usize at = 0; at < SIZE; at++) {
        long end = backtrack(&p, text, at, SIZE, &steps);
        int any = simulate(&p, text, at, SIZE);
        starts += (u64)any;
        differences += any != (end >= 0) || end == -2;
    }
    for (usize at = 0; at < SIZE;) {
        long end = backtrack(&p, text, at, SIZE, &steps);
        if (end > (long)at) {
            found++;
            covered += (u64)end - at;
            at = (usize)end;
        } else {
            at++;
        }
    }
    printf("%lu starts, %lu matches of %lu bytes, %lu steps, %lu differences\n", starts, found, covered, steps,
           differences);
    return differences == 0;
}

int main(void) {
    static const char letters[] = "aaaabbbbcccddeef01 \n";
    u8 *text = malloc(SIZE);
    int good = 1;
    if (!text)
        return 1;
    for (usize i = 0; i < SIZE; i++)
        text[i] = (u8)letters[next_random() % 20];
    for (usize i = 0; i < sizeof patterns / sizeof *patterns; i++)
        good &= search(patterns[i], text);
    free(text);
    return !good;
}
