/* SPDX-License-Identifier: Apache-2.0
 * main.c - hashes of short texts and of a random buffer. */
#include "hash.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define SIZE 200003u

static u64 random_state = 1;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

static void print_sha256(const char *name, const u8 *data, usize size, usize piece) {
    sha256_ctx ctx;
    u8 digest[32];
    sha256_init(&ctx);
    while (size > 0) {
        usize now = piece < size ? piece : size;
        sha256_update(&ctx, data, now);
        data += now;
        size -= now;
    }
    sha256_final(&ctx, digest);
    printf("sha256 %s ", name);
    for (int i = 0; i < 32; i++)
        printf("%02x", digest[i]);
    printf("\n");
}

int main(void) {
    u8 *data = malloc(SIZE);
    u32 crc = 0, adler = 1;
    u64 lanes = 0;
    if (!data)
        return 1;
    for (usize i = 0; i < SIZE; i++)
        data[i] = (u8)next_random();
    crc32_init();
    print_sha256("empty", data, 0, 1);
    print_sha256("abc", (const u8 *)"abc", 3, 3);
    print_sha256("buffer", data, SIZE, SIZE);
    print_sha256("pieces", data, SIZE, 1000);
    for (int round = 0; round < 5; round++) {
        crc = crc32(crc, data, SIZE);
        adler = adler32(adler, data, SIZE);
        lanes = lanes64(lanes, data, SIZE);
    }
    printf("crc32 %08x\nadler32 %08x\nlanes64 %016lx\n", crc, adler, lanes);
    free(data);
    return 0;
}
