/* SPDX-License-Identifier: Apache-2.0
 * encode.c - the compressor: turns matches and literals into tokens. */
#include "lz.h"

typedef struct {
    u8 *out;
    usize cap;
    usize len;
    int full;
} sink;

typedef struct {
    sink out;
    const u8 *src;
    usize size;
    usize lit_start; /* literals waiting to be sent: lit_start .. pos */
    usize pos;
    lz_match last;
    lz_sum sum;
} encoder;

static void put(sink *s, unsigned byte) {
    if (s->len < s->cap)
        s->out[s->len++] = (u8)byte;
    else
        s->full = 1;
}

static void put_le(sink *s, usize value, unsigned bytes) {
    while (bytes--) {
        put(s, value & 0xff);
        value >>= 8;
    }
}

static void put_varint(sink *s, usize value) {
    while (value >= 0x80) {
        put(s, 0x80 | (value & 0x7f));
        value >>= 7;
    }
    put(s, (unsigned)value);
}

static void put_bytes(sink *s, const u8 *p, usize n) {
    if (n > s->cap - s->len) {
        s->full = 1;
        return;
    }
    __builtin_memcpy(s->out + s->len, p, n);
    s->len += n;
}

static usize smaller(usize a, usize b) { return a < b ? a : b; }

static usize pending(const encoder *e) { return e->pos - e->lit_start; }

static int at_end(const encoder *e) { return e->pos >= e->size; }

static void begin(encoder *e, const u8 *src, usize n, u8 *dst, usize cap) {
    e->out.out = dst;
    e->out.cap = cap;
    e->out.len = 0;
    e->out.full = 0;
    e->src = src;
    e->size = n;
    e->lit_start = 0;
    e->pos = 0;
    e->last.length = 0;
    e->last.distance = 0;
    lz_sum_start(&e->sum);
    put(&e->out, 'L');
    put(&e->out, '7');
    put_varint(&e->out, n);
}

static void literal_token(encoder *e, usize n) {
    put(&e->out, (unsigned)(n - 1));
    put_bytes(&e->out, e->src + e->lit_start, n);
    e->lit_start += n;
}

static void flush_literals(encoder *e) {
    while (pending(e) && !e->out.full)
        literal_token(e, smaller(pending(e), LZ_MAX_LITERALS));
}

static void sum_range(encoder *e, usize from, usize to) {
    for (; from < to; from++)
        lz_sum_add(&e->sum, e->src[from]);
}

/* Move over bytes that stay literals. */
static void advance(encoder *e, usize n) {
    usize end = smaller(e->pos + n, e->size);
    sum_range(e, e->pos, end);
    e->pos = end;
}

static unsigned distance_class(const encoder *e, usize distance) {
    if (distance == e->last.distance)
        return LZ_DIST_REPEAT;
    return distance <= 0x100 ? 0 : distance <= 0x10000 ? 1 : 2;
}

static unsigned length_field(usize length) {
    return (unsigned)smaller(length - LZ_MIN_MATCH, LZ_LEN_ESCAPE);
}

static void match_token(encoder *e, lz_match x) {
    unsigned cls = distance_class(e, x.distance);
    unsigned len = length_field(x.length);
    flush_literals(e);
    put(&e->out, 0x80 | cls << 5 | len);
    if (len == LZ_LEN_ESCAPE)
        put_varint(&e->out, x.length - LZ_MIN_MATCH - LZ_LEN_ESCAPE);
    if (cls != LZ_DIST_REPEAT)
        put_le(&e->out, x.distance - 1, cls + 1);
    e->last = x;
}

static void take_match(encoder *e, lz_matcher *m, lz_match x) {
    match_token(e, x);
    lz_matcher_accept(m, x);
    advance(e, x.length);
    e->lit_start = e->pos;
}

static lz_status finish(encoder *e, usize *written) {
    flush_literals(e);
    put_le(&e->out, lz_sum_value(&e->sum), 4);
    *written = e->out.full ? 0 : e->out.len;
    return e->out.full ? LZ_FULL : LZ_OK;
}

usize lz_bound(usize size) { return 2 + 10 + size + size / LZ_MAX_LITERALS + 1 + 4; }

lz_status lz_encode(lz_matcher *m, const u8 *src, usize n, u8 *dst, usize cap, usize *written) {
    encoder e;
    begin(&e, src, n, dst, cap);
    lz_matcher_init(m, src, n);
    while (!at_end(&e) && !e.out.full) {
        lz_match x = lz_matcher_find(m, e.pos, 64);
        if (x.length == 0 || lz_matcher_better_later(m, e.pos, x))
            advance(&e, 1);
        else
            take_match(&e, m, x);
    }
    return finish(&e, written);
}

/* Greedy, shallow, and it speeds up over data that does not compress. */
lz_status lz_encode_fast(lz_matcher *m, const u8 *src, usize n, u8 *dst, usize cap,
                         usize *written) {
    encoder e;
    begin(&e, src, n, dst, cap);
    lz_matcher_init(m, src, n);
    while (!at_end(&e) && !e.out.full) {
        lz_match x = lz_matcher_find(m, e.pos, 4);
        if (x.length)
            take_match(&e, m, x);
        else
            advance(&e, 1 + (pending(&e) >> 6));
    }
    return finish(&e, written);
}

/* No compression at all, the same frame. */
lz_status lz_store(const u8 *src, usize n, u8 *dst, usize cap, usize *written) {
    encoder e;
    begin(&e, src, n, dst, cap);
    while (!at_end(&e) && !e.out.full) {
        advance(&e, LZ_MAX_LITERALS);
        flush_literals(&e);
    }
    return finish(&e, written);
}
