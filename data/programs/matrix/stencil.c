/* SPDX-License-Identifier: Apache-2.0
 * stencil.c - integer stencils whose window moves through variables. */
#include "matrix.h"

void stencil(const int *restrict in, int *restrict out, int width, int height) {
    for (int y = 1; y + 1 < height; y++) {
        const int *up = in + (y - 1) * width, *mid = up + width, *down = mid + width;
        int *to = out + y * width;
        int a = up[0], b = up[1], d = mid[0], e = mid[1], g = down[0], h = down[1];
        for (int x = 1; x + 1 < width; x++) {
            int c = up[x + 1], f = mid[x + 1], i = down[x + 1];
            to[x] = (a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i) & 0xffff;
            a = b, b = c, d = e, e = f, g = h, h = i;
        }
    }
}

void box(const int *restrict in, int *restrict out, int width, int height) {
    for (int y = 2; y + 2 < height; y++) {
        const int *r0 = in + (y - 2) * width, *r1 = r0 + width, *r2 = r1 + width, *r3 = r2 + width, *r4 = r3 + width;
#define COLUMN(x) (r0[x] + r1[x] + r2[x] + r3[x] + r4[x])
        int c0 = COLUMN(0), c1 = COLUMN(1), c2 = COLUMN(2), c3 = COLUMN(3), sum = c0 + c1 + c2 + c3;
        for (int x = 2; x + 2 < width; x++) {
            int c4 = COLUMN(x + 2);
            sum += c4;
            out[y * width + x] = sum & 0xffff;
            sum -= c0;
            c0 = c1, c1 = c2, c2 = c3, c3 = c4;
        }
    }
}
