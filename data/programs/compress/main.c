/* SPDX-License-Identifier: Apache-2.0
 * main.c - texts of three kinds, compressed and restored. */
#include "compress.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);
int memcmp(const void *a, const void *b, usize size);

#define SIZE 45000u

static u64 random_state = 3;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

/* Words of a small vocabulary. */
static void fill_words(u8 *text) {
    usize at = 0;
    while (at < SIZE) {
        u32 word = next_random() % 200 * (next_random() % 7 + 1);
        for (u32 n = word % 6 + 2; n > 0 && at < SIZE; n--, word = word * 17 + 5)
            text[at++] = (u8)('a' + word % 26);
        if (at < SIZE)
            text[at++] = ' ';
    }
}

/* Slowly varying samples. */
static void fill_wave(u8 *text) {
    int level = 128, slope = 0;
    for (usize i = 0; i < SIZE; i++) {
        slope += (int)(next_random() % 3) - 1;
        if (slope > 3 || slope < -3)
            slope /= 2;
        level += slope;
        text[i] = (u8)level;
    }
}

static void fill_noise(u8 *text) {
    for (usize i = 0; i < SIZE; i++)
        text[i] = (u8)next_random();
}

static u32 fold(const u8 *data, usize size) {
    u32 sum = 0;
    for (usize i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    return sum;
}

static int round_trip(const char *name, const u8 *text, u8 *a, u8 *b) {
    usize tokens = lz_encode(text, SIZE, a);
    usize coded = huffman_encode(a, tokens, b);
    usize again = huffman_decode(b, a);
    usize size = lz_decode(a, again, b);
    int same = again == tokens && size == SIZE && !memcmp(text, b, SIZE);
    printf("%s %08x: %lu tokens, %lu coded, %s\n", name, fold(text, SIZE), tokens, coded,
           same ? "restored" : "differs");
    return same;
}

int main(void) {
    u8 *text = malloc(SIZE), *a = malloc(2 * SIZE + 1000), *b = malloc(2 * SIZE + 1000);
    int good = 1;
    if (!text || !a || !b)
        return 1;
    fill_words(text);
    good &= round_trip("words", text, a, b);
    fill_wave(text);
    good &= round_trip("wave", text, a, b);
    fill_noise(text);
    good &= round_trip("noise", text, a, b);
    free(text);
    free(a);
    free(b);
    return !good;
}
