/* SPDX-License-Identifier: Apache-2.0
 * image.h - filters of grey pictures, one byte a pixel, row by row; what lies outside repeats the border. */
#ifndef IMAGE_H
#define IMAGE_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

typedef struct {
    u8 *pixels;
    int width, height;
} image;

void median3(const image *in, image *out);
void blur5(const image *in, image *out);
void edges(const image *in, image *out);
void equalise(const image *in, image *out);
void shrink(const image *in, image *out); /* to the size of out, bilinear, in 16.16 fixed point */

#endif
