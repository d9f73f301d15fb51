/* SPDX-License-Identifier: Apache-2.0
 * main.c - all filters in a row on a noisy picture of squares. */
#include "image.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define WIDTH 241
#define HEIGHT 173
#define SMALL_WIDTH 150
#define SMALL_HEIGHT 101
#define ROUNDS 3

static u64 random_state = 10;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

static void draw(image *out) {
    for (int y = 0; y < out->height; y++)
        for (int x = 0; x < out->width; x++) {
            u32 noise = next_random();
            int level = (x / 19 + y / 23) % 5 * 40 + (int)(noise % 32);
            out->pixels[y * out->width + x] = (u8)(noise >> 8 & 15 ? (u32)level : noise >> 16 & 255);
        }
}

static void show(const char *name, const image *in) {
    u32 sum = 0;
    for (int i = 0; i < in->width * in->height; i++)
        sum = sum * 31 + in->pixels[i];
    printf("%s %08x\n", name, sum);
}

int main(void) {
    u8 *memory = malloc(2 * WIDTH * HEIGHT + SMALL_WIDTH * SMALL_HEIGHT);
    image a = {memory, WIDTH, HEIGHT}, b = {memory + WIDTH * HEIGHT, WIDTH, HEIGHT};
    image small = {memory + 2 * WIDTH * HEIGHT, SMALL_WIDTH, SMALL_HEIGHT};
    if (!memory)
        return 1;
    for (int i = 0; i < ROUNDS; i++) {
        draw(&a);
        show("drawn", &a);
        median3(&a, &b);
        show("median", &b);
        blur5(&b, &a);
        show("blurred", &a);
        equalise(&a, &b);
        show("equalised", &b);
        edges(&b, &a);
        show("edges", &a);
        shrink(&b, &small);
        show("shrunk", &small);
    }
    free(memory);
    return 0;
}
