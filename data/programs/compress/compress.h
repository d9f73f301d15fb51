/* SPDX-License-Identifier: Apache-2.0
 * compress.h - LZ77 with hash chains, its output coded by canonical Huffman codes. */
#ifndef COMPRESS_H
#define COMPRESS_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

/* Each returns the size of the output; the output buffers must be large enough (twice the input plus 1000). */
usize lz_encode(const u8 *in, usize size, u8 *out);
usize lz_decode(const u8 *in, usize size, u8 *out);
usize huffman_encode(const u8 *in, usize size, u8 *out);
usize huffman_decode(const u8 *in, u8 *out);

#endif
