/* SPDX-License-Identifier: Apache-2.0
 * sha256.c - SHA-256 (FIPS 180-4), rounds unrolled by eight, message schedule in place. */
#include "hash.h"

static const u32 K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static u32 rotr(u32 x, int n) { return x >> n | x << (32 - n); }

static u32 load_be(const u8 *p) {
    return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3];
}

static void store_be(u8 *p, u32 x) {
    p[0] = (u8)(x >> 24);
    p[1] = (u8)(x >> 16);
    p[2] = (u8)(x >> 8);
    p[3] = (u8)x;
}

#define BIG0(x) (rotr(x, 2) ^ rotr(x, 13) ^ rotr(x, 22))
#define BIG1(x) (rotr(x, 6) ^ rotr(x, 11) ^ rotr(x, 25))
#define SMALL0(x) (rotr(x, 7) ^ rotr(x, 18) ^ ((x) >> 3))
#define SMALL1(x) (rotr(x, 17) ^ rotr(x, 19) ^ ((x) >> 10))

/* One round; the caller renames the eight words instead of moving them. */
#define ROUND(a, b, c, d, e, f, g, h, i)                                                   \
    do {                                                                                   \
        u32 t = h + BIG1(e) + ((e & f) ^ (~e & g)) + K[i] + w[(i) & 15];                   \
        d += t;                                                                            \
        h = t + BIG0(a) + ((a & b) ^ (a & c) ^ (b & c));                                   \
    } while (0)

#define EIGHT_ROUNDS(i)                                                                    \
    do {                                                                                   \
        ROUND(a, b, c, d, e, f, g, h, (i) + 0);                                            \
        ROUND(h, a, b, c, d, e, f, g, (i) + 1);                                            \
        ROUND(g, h, a, b, c, d, e, f, (i) + 2);                                            \
        ROUND(f, g, h, a, b, c, d, e, (i) + 3);                                            \
        ROUND(e, f, g, h, a, b, c, d, (i) + 4);                                            \
        ROUND(d, e, f, g, h, a, b, c, (i) + 5);                                            \
        ROUND(c, d, e, f, g, h, a, b, (i) + 6);                                            \
        ROUND(b, c, d, e, f, g, h, a, (i) + 7);                                            \
    } while (0)

static void compress(u32 state[8], const u8 *block) {
    u32 w[16];
    u32 a = state[0], b = state[1], c = state[2], d = state[3];
    u32 e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 16; i++)
        w[i] = load_be(block + 4 * i);
    EIGHT_ROUNDS(0);
    EIGHT_ROUNDS(8);
    for (int base = 16; base < 64; base += 16) {
        for (int i = 0; i < 16; i++)
            w[i] += SMALL0(w[(i + 1) & 15]) + w[(i + 9) & 15] + SMALL1(w[(i + 14) & 15]);
        EIGHT_ROUNDS(base);
        EIGHT_ROUNDS(base + 8);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
    state[4] += e;
    state[5] += f;
    state[6] += g;
    state[7] += h;
}

void sha256_init(sha256_ctx *ctx) {
    static const u32 start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    for (int i = 0; i < 8; i++)
        ctx->state[i] = start[i];
    ctx->length = 0;
}

void sha256_update(sha256_ctx *ctx, const u8 *data, usize size) {
    usize used = ctx->length & 63;
    ctx->length += size;
    while (size > 0) {
        if (used == 0 && size >= 64) {
            compress(ctx->state, data);
            data += 64;
            size -= 64;
            continue;
        }
        ctx->block[used++] = *data++;
        size--;
        if (used == 64) {
            compress(ctx->state, ctx->block);
            used = 0;
        }
    }
}

void sha256_final(sha256_ctx *ctx, u8 digest[32]) {
    static const u8 padding[64] = {0x80};
    u64 bits = ctx->length * 8;
    u8 tail[8];
    usize used = ctx->length & 63;
    sha256_update(ctx, padding, used < 56 ? 56 - used : 120 - used);
    store_be(tail, (u32)(bits >> 32));
    store_be(tail + 4, (u32)bits);
    sha256_update(ctx, tail, 8);
    for (int i = 0; i < 8; i++)
        store_be(digest + 4 * i, ctx->state[i]);
}
