/* SPDX-License-Identifier: Apache-2.0
 * main.c - the vectors of the standards, then a buffer there and back. */
#include "cipher.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);
int memcmp(const void *a, const void *b, usize size);
void *memcpy(void *to, const void *from, usize size);

#define SIZE 100000u /* a multiple of the block */

static u64 random_state = 2;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

static void print_bytes(const char *name, const u8 *bytes, int count) {
    printf("%s ", name);
    for (int i = 0; i < count; i++)
        printf("%02x", bytes[i]);
    printf("\n");
}

static u32 fold(const u8 *data, usize size) {
    u32 sum = 0;
    for (usize i = 0; i < size; i++)
        sum = sum * 31 + data[i];
    return sum;
}

static void chain_encrypt(const aes_key *key, u8 *data, usize size) {
    u8 previous[16] = {0};
    for (usize i = 0; i < size; i += 16) {
        for (int k = 0; k < 16; k++)
            previous[k] ^= data[i + (usize)k];
        aes_encrypt(key, previous, data + i);
        memcpy(previous, data + i, 16);
    }
}

static void chain_decrypt(const aes_key *key, u8 *data, usize size) {
    u8 previous[16] = {0}, current[16];
    for (usize i = 0; i < size; i += 16) {
        memcpy(current, data + i, 16);
        aes_decrypt(key, current, data + i);
        for (int k = 0; k < 16; k++)
            data[i + (usize)k] ^= previous[k];
        memcpy(previous, current, 16);
    }
}

int main(void) {
    static const u32 zero_nonce[3];
    u8 bytes[16], out[64] = {0};
    u32 key[8], nonce[3] = {0, 0x4a000000, 0};
    aes_key aes;
    u8 *data = malloc(SIZE), *copy = malloc(SIZE);
    if (!data || !copy)
        return 1;

    aes_tables();
    for (int i = 0; i < 16; i++)
        bytes[i] = (u8)i;
    aes_expand(&aes, bytes);
    for (int i = 0; i < 16; i++)
        bytes[i] = (u8)(i * 0x11);
    aes_encrypt(&aes, bytes, out);
    print_bytes("aes-128", out, 16);
    aes_decrypt(&aes, out, out);
    print_bytes("inverse", out, 16);

    for (int i = 0; i < 8; i++)
        key[i] = (u32)(4 * i) | (u32)(4 * i + 1) << 8 | (u32)(4 * i + 2) << 16 | (u32)(4 * i + 3) << 24;
    for (int i = 0; i < 64; i++)
        out[i] = 0;
    chacha_xor(key, nonce, 1, out, 64);
    print_bytes("chacha20", out, 32);

    for (usize i = 0; i < SIZE; i++)
        data[i] = (u8)next_random();
    memcpy(copy, data, SIZE);
    printf("plain %08x\n", fold(data, SIZE));
    chain_encrypt(&aes, data, SIZE);
    printf("chained %08x\n", fold(data, SIZE));
    chacha_xor(key, zero_nonce, 7, data, SIZE);
    printf("both %08x\n", fold(data, SIZE));
    chacha_xor(key, zero_nonce, 7, data, SIZE);
    chain_decrypt(&aes, data, SIZE);
    printf("%s\n", memcmp(data, copy, SIZE) ? "differs" : "restored");
    free(data);
    free(copy);
    return 0;
}
