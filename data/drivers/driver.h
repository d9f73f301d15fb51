/* What all drivers share: random numbers that are the same everywhere, text made of them, a checksum. */
#ifndef DRIVER_H
#define DRIVER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint32_t driver_state = 2463534242u;

/* Xorshift with 32 bits of state (Marsaglia, 2003). */
static inline uint32_t driver_random(void)
{
    driver_state ^= driver_state << 13;
    driver_state ^= driver_state >> 17;
    driver_state ^= driver_state << 5;
    return driver_state;
}

/* Fill a buffer with words of a small language: frequent ones are short, so that there is something to compress. */
static inline void driver_text(char *text, size_t size)
{
    size_t at = 0;
    while (at < size) {
        uint32_t word = driver_random() % 64, length;
        word = driver_random() % (word + 1);
        for (length = 2 + word % 7; length && at < size; length--)
            text[at++] = "etaoinshrdlucmfwypvbgk"[(word * 7 + length * 5) % 22];
        if (at < size)
            text[at++] = driver_random() % 12 ? ' ' : '\n';
    }
}

/* FNV-1a with 32 bits, continued from an earlier sum; begin with 2166136261. */
static inline uint32_t driver_sum(uint32_t sum, const void *data, size_t size)
{
    const unsigned char *byte = (const unsigned char *)data;
    while (size--)
        sum = (sum ^ *byte++) * 16777619u;
    return sum;
}

#define DRIVER_SUM 2166136261u

#endif
