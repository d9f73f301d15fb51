/* SPDX-License-Identifier: Apache-2.0
 * fast.c - CRC-32 four bytes at a time, Adler-32 unrolled, and a hash of four multiplied lanes. */
#include "hash.h"

static u32 crc_table[4][256];

void crc32_init(void) {
    for (u32 n = 0; n < 256; n++) {
        u32 crc = n;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
        crc_table[0][n] = crc;
    }
    for (u32 n = 0; n < 256; n++)
        for (int k = 1; k < 4; k++)
            crc_table[k][n] = crc_table[k - 1][n] >> 8 ^ crc_table[0][crc_table[k - 1][n] & 255];
}

static u32 load32(const u8 *p) {
    return (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24;
}

static u64 load64(const u8 *p) { return load32(p) | (u64)load32(p + 4) << 32; }

u32 crc32(u32 crc, const u8 *data, usize size) {
    crc = ~crc;
    for (; size >= 4; size -= 4, data += 4) {
        crc ^= load32(data);
        crc = crc_table[3][crc & 255] ^ crc_table[2][crc >> 8 & 255] ^ crc_table[1][crc >> 16 & 255] ^
              crc_table[0][crc >> 24];
    }
    while (size-- > 0)
        crc = crc >> 8 ^ crc_table[0][(crc ^ *data++) & 255];
    return ~crc;
}

#define ADLER_MOD 65521u
#define ADLER_RUN 5552u /* longest run whose sums stay below 2^32 */
#define STEP(i) (a += data[i], b += a)

u32 adler32(u32 adler, const u8 *data, usize size) {
    u32 a = adler & 0xffff, b = adler >> 16;
    while (size > 0) {
        usize run = size < ADLER_RUN ? size : ADLER_RUN;
        size -= run;
        for (; run >= 8; run -= 8, data += 8) {
            STEP(0);
            STEP(1);
            STEP(2);
            STEP(3);
            STEP(4);
            STEP(5);
            STEP(6);
            STEP(7);
        }
        for (; run > 0; run--, data++)
            STEP(0);
        a %= ADLER_MOD;
        b %= ADLER_MOD;
    }
    return b << 16 | a;
}

static u64 rotl(u64 x, int n) { return x << n | x >> (64 - n); }

static u64 mix(u64 lane, u64 word) { return rotl(lane + word * 0x9e3779b97f4a7c15u, 31) * 0xd6e8feb86659fd93u; }

u64 lanes64(u64 seed, const u8 *data, usize size) {
    u64 total = size;
    u64 a = seed, b = seed + 1, c = seed ^ 0x5555555555555555u, d = ~seed;
    u64 hash;
    for (; size >= 64; size -= 64, data += 64) {
        a = mix(a, load64(data));
        b = mix(b, load64(data + 8));
        c = mix(c, load64(data + 16));
        d = mix(d, load64(data + 24));
        a = mix(a, load64(data + 32) ^ d);
        b = mix(b, load64(data + 40) ^ a);
        c = mix(c, load64(data + 48) ^ b);
        d = mix(d, load64(data + 56) ^ c);
    }
    hash = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18) + total;
    while (size-- > 0)
        hash = mix(hash, *data++);
    hash ^= hash >> 29;
    hash *= 0xa0761d6478bd642fu;
    return hash ^ hash >> 32;
}
