/* SPDX-License-Identifier: Apache-2.0
 * lz.h - shared types of a small LZ77 compressor.
 *
 * Frame:  'L' '7'  varint(size)  token*  checksum (4 bytes, little endian)
 * Token:  0nnnnnnn              n+1 literal bytes follow
 *         1ddlllll              a match of l+3 bytes (l = 31: varint follows);
 *                               d+1 distance bytes follow, or d = 3: the
 *                               distance of the previous match again
 */
#ifndef LZ_H
#define LZ_H

typedef __UINT8_TYPE__ u8;
typedef __UINT32_TYPE__ u32;
typedef __SIZE_TYPE__ usize;

enum {
    LZ_HASH_BITS = 12,
    LZ_WINDOW_BITS = 15,
    LZ_WINDOW = 1 << LZ_WINDOW_BITS,
    LZ_MIN_MATCH = 3,
    LZ_MAX_LITERALS = 128,
    LZ_LEN_ESCAPE = 31,
    LZ_DIST_REPEAT = 3
};

typedef enum { LZ_OK, LZ_FULL, LZ_TRUNCATED, LZ_CORRUPT, LZ_BAD_SUM } lz_status;

typedef struct {
    usize length;
    usize distance;
} lz_match;

/* Hash chains over the input; large, so the caller provides the storage. */
typedef struct {
    const u8 *base;
    usize size;
    usize next; /* first position not yet inserted */
    u32 last_distance;
    u32 head[1 << LZ_HASH_BITS]; /* position + 1, 0 = empty */
    u32 prev[LZ_WINDOW];
} lz_matcher;

typedef struct {
    usize literals;
    usize matches;
    usize repeats;
    usize longest;
} lz_stats;

/* match.c */
void lz_matcher_init(lz_matcher *m, const u8 *data, usize size);
void lz_matcher_skip(lz_matcher *m, usize upto);
void lz_matcher_accept(lz_matcher *m, lz_match match);
lz_match lz_matcher_find(lz_matcher *m, usize pos, unsigned depth);
int lz_matcher_better_later(lz_matcher *m, usize pos, lz_match now);
long lz_match_gain(const lz_matcher *m, lz_match match);

/* encode.c */
usize lz_bound(usize size);
lz_status lz_encode(lz_matcher *m, const u8 *src, usize n, u8 *dst, usize cap, usize *written);
lz_status lz_encode_fast(lz_matcher *m, const u8 *src, usize n, u8 *dst, usize cap, usize *written);
lz_status lz_store(const u8 *src, usize n, u8 *dst, usize cap, usize *written);

/* decode.c */
lz_status lz_decoded_size(const u8 *src, usize n, usize *size);
lz_status lz_decode(const u8 *src, usize n, u8 *dst, usize cap, usize *written);
lz_status lz_scan(const u8 *src, usize n, lz_stats *stats);

/* Running checksum: two 16-bit sums, the second one weighs the position. */
typedef struct {
    u32 a, b;
} lz_sum;

static inline void lz_sum_start(lz_sum *s) {
    s->a = 1;
    s->b = 0;
}

static inline void lz_sum_add(lz_sum *s, u8 byte) {
    s->a = (s->a + byte) & 0xffff;
    s->b = (s->b + s->a) & 0xffff;
}

static inline u32 lz_sum_value(const lz_sum *s) { return s->b << 16 | s->a; }

#endif
