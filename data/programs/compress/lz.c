/* SPDX-License-Identifier: Apache-2.0
 * lz.c - tokens: a control byte for eight items, each a literal or a match of two bytes distance and one length. */
#include "compress.h"

#define HASH_BITS 13
#define WINDOW 32768u
#define MIN_MATCH 4u
#define MAX_MATCH 259u
#define MAX_TRIES 24

static u32 head[1u << HASH_BITS]; /* position + 1 of the latest occurrence */
static u32 chain[WINDOW];

static u32 load32(const u8 *p) { return (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16 | (u32)p[3] << 24; }

static u32 hash4(const u8 *p) { return load32(p) * 2654435761u >> (32 - HASH_BITS); }

static void insert(const u8 *in, usize at) {
    u32 *slot = &head[hash4(in + at)];
    chain[at % WINDOW] = *slot;
    *slot = (u32)at + 1;
}

static usize match_length(const u8 *a, const u8 *b, usize limit) {
    usize n = 0;
    while (n + 4 <= limit && load32(a + n) == load32(b + n))
        n += 4;
    while (n < limit && a[n] == b[n])
        n++;
    return n;
}

static usize find_match(const u8 *in, usize at, usize size, usize *distance) {
    usize limit = size - at < MAX_MATCH ? size - at : MAX_MATCH, best = 0;
    u32 link = head[hash4(in + at)];
    for (int tries = 0; link != 0 && tries < MAX_TRIES; tries++) {
        usize candidate = link - 1;
        if (at - candidate >= WINDOW)
            break;
        if (best == 0 || in[candidate + best] == in[at + best]) {
            usize length = match_length(in + candidate, in + at, limit);
            if (length > best) {
                best = length;
                *distance = at - candidate;
                if (best == limit)
                    break;
            }
        }
        link = chain[candidate % WINDOW];
    }
    return best >= MIN_MATCH ? best : 0;
}

usize lz_encode(const u8 *in, usize size, u8 *out) {
    usize at = 0, used = 0, control = 0;
    int item = 8;
    for (usize i = 0; i < 1u << HASH_BITS; i++)
        head[i] = 0;
    while (at < size) {
        usize distance = 0, length = at + MIN_MATCH <= size ? find_match(in, at, size, &distance) : 0;
        if (item == 8) {
            control = used++;
            out[control] = 0;
            item = 0;
        }
        if (length == 0) {
            length = 1;
            out[used++] = in[at];
        } else {
            out[control] |= (u8)(1 << item);
            out[used++] = (u8)distance;
            out[used++] = (u8)(distance >> 8);
            out[used++] = (u8)(length - MIN_MATCH);
        }
        item++;
        for (usize end = at + length; at < end; at++)
            if (at + MIN_MATCH <= size)
                insert(in, at);
    }
    return used;
}

usize lz_decode(const u8 *in, usize size, u8 *out) {
    usize at = 0, used = 0;
    while (at < size) {
        u32 control = in[at++];
        for (int item = 0; item < 8 && at < size; item++, control >>= 1) {
            if (!(control & 1)) {
                out[used++] = in[at++];
                continue;
            }
            usize distance = in[at] | (usize)in[at + 1] << 8, length = in[at + 2] + MIN_MATCH;
            at += 3;
            for (const u8 *from = out + used - distance; length > 0; length--)
                out[used++] = *from++;
        }
    }
    return used;
}
