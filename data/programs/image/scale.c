/* SPDX-License-Identifier: Apache-2.0
 * scale.c - histogram equalisation and bilinear scaling. */
#include "image.h"

void equalise(const image *in, image *out) {
    u32 counts[256] = {0}, below = 0;
    usize size = (usize)in->width * (usize)in->height;
    u8 map[256];
    for (usize i = 0; i < size; i++)
        counts[in->pixels[i]]++;
    for (int level = 0; level < 256; level++) {
        below += counts[level];
        map[level] = (u8)((u64)below * 255 / size);
    }
    for (usize i = 0; i < size; i++)
        out->pixels[i] = map[in->pixels[i]];
}

void shrink(const image *in, image *out) {
    u32 step_x = ((u32)in->width - 1) * 65536 / (u32)out->width, step_y = ((u32)in->height - 1) * 65536 / (u32)out->height;
    u32 at_y = 0;
    for (int y = 0; y < out->height; y++, at_y += step_y) {
        const u8 *top = in->pixels + (usize)(at_y >> 16) * (usize)in->width, *bottom = top + in->width;
        u32 v = at_y >> 8 & 255, at_x = 0;
        for (int x = 0; x < out->width; x++, at_x += step_x) {
            u32 i = at_x >> 16, u = at_x >> 8 & 255;
            u32 above = top[i] * (256 - u) + top[i + 1] * u, under = bottom[i] * (256 - u) + bottom[i + 1] * u;
            out->pixels[(usize)y * (usize)out->width + (usize)x] = (u8)((above * (256 - v) + under * v + 32768) >> 16);
        }
    }
}
