/* SPDX-License-Identifier: Apache-2.0
 * aes.c - AES-128 (FIPS 197) by tables of columns, which are computed at the start. */
#include "cipher.h"

static u8 sbox[256], inverse_sbox[256];
static u32 enc_table[256], dec_table[256];

static u32 rotr(u32 x, int n) { return n ? x >> n | x << (32 - n) : x; }

static u8 twice(u8 x) { return (u8)(x << 1 ^ (x & 0x80 ? 0x1b : 0)); }

static u8 multiply(u8 a, u8 b) {
    u8 product = 0;
    for (; b; b >>= 1, a = twice(a))
        if (b & 1)
            product ^= a;
    return product;
}

void aes_tables(void) {
    u8 p = 1, q = 1; /* q is always the inverse of p */
    do {
        p = (u8)(p ^ twice(p));
        q ^= (u8)(q << 1);
        q ^= (u8)(q << 2);
        q ^= (u8)(q << 4);
        if (q & 0x80)
            q ^= 0x09;
        u32 s = q | (u32)q << 8; /* so that shifts to the right rotate a byte to the left */
        sbox[p] = (u8)(q ^ s >> 7 ^ s >> 6 ^ s >> 5 ^ s >> 4 ^ 0x63);
    } while (p != 1);
    sbox[0] = 0x63;
    for (int i = 0; i < 256; i++)
        inverse_sbox[sbox[i]] = (u8)i;
    for (int i = 0; i < 256; i++) {
        u8 s = sbox[i], r = inverse_sbox[i];
        enc_table[i] = (u32)twice(s) << 24 | (u32)s << 16 | (u32)s << 8 | (u8)(twice(s) ^ s);
        dec_table[i] = (u32)multiply(r, 14) << 24 | (u32)multiply(r, 9) << 16 | (u32)multiply(r, 13) << 8 |
                       multiply(r, 11);
    }
}

static u32 load_be(const u8 *p) { return (u32)p[0] << 24 | (u32)p[1] << 16 | (u32)p[2] << 8 | p[3]; }

static void store_be(u8 *p, u32 x) {
    p[0] = (u8)(x >> 24);
    p[1] = (u8)(x >> 16);
    p[2] = (u8)(x >> 8);
    p[3] = (u8)x;
}

static u32 substitute(u32 x) {
    return (u32)sbox[x >> 24] << 24 | (u32)sbox[x >> 16 & 255] << 16 | (u32)sbox[x >> 8 & 255] << 8 |
           sbox[x & 255];
}

static u32 inverse_mix(u32 x) {
    return dec_table[sbox[x >> 24]] ^ rotr(dec_table[sbox[x >> 16 & 255]], 8) ^
           rotr(dec_table[sbox[x >> 8 & 255]], 16) ^ rotr(dec_table[sbox[x & 255]], 24);
}

void aes_expand(aes_key *key, const u8 bytes[16]) {
    u32 *w = key->encrypt;
    u8 constant = 1;
    for (int i = 0; i < 4; i++)
        w[i] = load_be(bytes + 4 * i);
    for (int i = 4; i < 44; i++) {
        u32 t = w[i - 1];
        if (i % 4 == 0) {
            t = substitute(rotr(t, 24)) ^ (u32)constant << 24;
            constant = twice(constant);
        }
        w[i] = w[i - 4] ^ t;
    }
    for (int round = 0; round <= 10; round++)
        for (int i = 0; i < 4; i++) {
            u32 t = w[4 * (10 - round) + i];
            key->decrypt[4 * round + i] = round == 0 || round == 10 ? t : inverse_mix(t);
        }
}

#define COLUMN(table, a, b, c, d, k)                                                        \
    (table[(a) >> 24] ^ rotr(table[(b) >> 16 & 255], 8) ^ rotr(table[(c) >> 8 & 255], 16) ^ \
     rotr(table[(d) & 255], 24) ^ (k))
#define LAST(box, a, b, c, d, k)                                                            \
    (((u32)box[(a) >> 24] << 24 | (u32)box[(b) >> 16 & 255] << 16 | (u32)box[(c) >> 8 & 255] << 8 | \
      box[(d) & 255]) ^ (k))

void aes_encrypt(const aes_key *key, const u8 in[16], u8 out[16]) {
    const u32 *k = key->encrypt;
    u32 a = load_be(in) ^ k[0], b = load_be(in + 4) ^ k[1];
    u32 c = load_be(in + 8) ^ k[2], d = load_be(in + 12) ^ k[3];
    for (int round = 1; round < 10; round++) {
        k += 4;
        u32 e = COLUMN(enc_table, a, b, c, d, k[0]), f = COLUMN(enc_table, b, c, d, a, k[1]);
        u32 g = COLUMN(enc_table, c, d, a, b, k[2]), h = COLUMN(enc_table, d, a, b, c, k[3]);
        a = e, b = f, c = g, d = h;
    }
    k += 4;
    store_be(out, LAST(sbox, a, b, c, d, k[0]));
    store_be(out + 4, LAST(sbox, b, c, d, a, k[1]));
    store_be(out + 8, LAST(sbox, c, d, a, b, k[2]));
    store_be(out + 12, LAST(sbox, d, a, b, c, k[3]));
}

void aes_decrypt(const aes_key *key, const u8 in[16], u8 out[16]) {
    const u32 *k = key->decrypt;
    u32 a = load_be(in) ^ k[0], b = load_be(in + 4) ^ k[1];
    u32 c = load_be(in + 8) ^ k[2], d = load_be(in + 12) ^ k[3];
    for (int round = 1; round < 10; round++) {
        k += 4;
        u32 e = COLUMN(dec_table, a, d, c, b, k[0]), f = COLUMN(dec_table, b, a, d, c, k[1]);
        u32 g = COLUMN(dec_table, c, b, a, d, k[2]), h = COLUMN(dec_table, d, c, b, a, k[3]);
        a = e, b = f, c = g, d = h;
    }
    k += 4;
    store_be(out, LAST(inverse_sbox, a, d, c, b, k[0]));
    store_be(out + 4, LAST(inverse_sbox, b, a, d, c, k[1]));
    store_be(out + 8, LAST(inverse_sbox, c, b, a, d, k[2]));
    store_be(out + 12, LAST(inverse_sbox, d, c, b, a, k[3]));
}
