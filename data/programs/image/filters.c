/* SPDX-License-Identifier: Apache-2.0
 * filters.c - median, blur and edges over small windows. */
#include "image.h"

static int clamp(int x, int low, int high) { return x < low ? low : x > high ? high : x; }

static const u8 *row(const image *in, int y) { return in->pixels + (usize)clamp(y, 0, in->height - 1) * (usize)in->width; }

static void order(int *a, int *b) {
    int low = *a < *b ? *a : *b, high = *a < *b ? *b : *a;
    *a = low;
    *b = high;
}

/* Median of nine by a network of 19 exchanges. */
static int median_of_nine(int a, int b, int c, int d, int e, int f, int g, int h, int i) {
    order(&b, &c), order(&e, &f), order(&h, &i);
    order(&a, &b), order(&d, &e), order(&g, &h);
    order(&b, &c), order(&e, &f), order(&h, &i);
    order(&a, &d), order(&f, &i), order(&e, &h);
    order(&d, &g), order(&b, &e), order(&c, &f);
    order(&e, &h), order(&e, &c), order(&g, &e);
    order(&e, &c);
    return e;
}

void median3(const image *in, image *out) {
    for (int y = 0; y < in->height; y++) {
        const u8 *up = row(in, y - 1), *mid = row(in, y), *down = row(in, y + 1);
        u8 *to = out->pixels + (usize)y * (usize)in->width;
        int a = up[0], b = up[0], d = mid[0], e = mid[0], g = down[0], h = down[0];
        for (int x = 0; x < in->width; x++) {
            int right = x + 1 < in->width ? x + 1 : x, c = up[right], f = mid[right], i = down[right];
            to[x] = (u8)median_of_nine(a, b, c, d, e, f, g, h, i);
            a = b, b = c, d = e, e = f, g = h, h = i;
        }
    }
}

/* Weights 1 4 6 4 1 in both directions, their sum 256, rounded to the nearest. */
void blur5(const image *in, image *out) {
    for (int y = 0; y < in->height; y++) {
        const u8 *r0 = row(in, y - 2), *r1 = row(in, y - 1), *r2 = row(in, y), *r3 = row(in, y + 1), *r4 = row(in, y + 2);
        u8 *to = out->pixels + (usize)y * (usize)in->width;
        int last = in->width - 1;
#define COLUMN(x) (r0[x] + 4 * r1[x] + 6 * r2[x] + 4 * r3[x] + r4[x])
        int a = COLUMN(0), b = a, c = a, d = COLUMN(last < 1 ? last : 1);
        for (int x = 0; x <= last; x++) {
            int ahead = x + 2 < last ? x + 2 : last, e = COLUMN(ahead);
            to[x] = (u8)((a + 4 * b + 6 * c + 4 * d + e + 128) >> 8);
            a = b, b = c, c = d, d = e;
        }
    }
}

/* Sobel: sum of the absolute slopes in both directions, a quarter of it. */
void edges(const image *in, image *out) {
    for (int y = 0; y < in->height; y++) {
        const u8 *up = row(in, y - 1), *mid = row(in, y), *down = row(in, y + 1);
        for (int x = 0; x < in->width; x++) {
            int l = x > 0 ? x - 1 : x, r = x + 1 < in->width ? x + 1 : x;
            int across = up[r] + 2 * mid[r] + down[r] - up[l] - 2 * mid[l] - down[l];
            int along = down[l] + 2 * down[x] + down[r] - up[l] - 2 * up[x] - up[r];
            int sum = (across < 0 ? -across : across) + (along < 0 ? -along : along);
            out->pixels[(usize)y * (usize)in->width + (usize)x] = (u8)(sum / 4 > 255 ? 255 : sum / 4);
        }
    }
}
