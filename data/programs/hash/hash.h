/* SPDX-License-Identifier: Apache-2.0
 * hash.h - a cryptographic hash, two checksums and a fast hash table hash. */
#ifndef HASH_H
#define HASH_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

typedef struct {
    u32 state[8];
    u64 length; /* bytes so far */
    u8 block[64];
} sha256_ctx;

void sha256_init(sha256_ctx *ctx);
void sha256_update(sha256_ctx *ctx, const u8 *data, usize size);
void sha256_final(sha256_ctx *ctx, u8 digest[32]);

void crc32_init(void);
u32 crc32(u32 crc, const u8 *data, usize size);
u32 adler32(u32 adler, const u8 *data, usize size);
u64 lanes64(u64 seed, const u8 *data, usize size);

#endif
