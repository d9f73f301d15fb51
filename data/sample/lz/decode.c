/* SPDX-License-Identifier: Apache-2.0
 * decode.c - the decompressor: every read and write is bounds checked. */
#include "lz.h"

typedef struct {
    const u8 *in;
    usize size;
    usize pos;
    lz_status status; /* the first error sticks */
} source;

typedef struct {
    source in;
    u8 *out;
    usize cap;
    usize len;
    usize distance;
    lz_sum sum;
} decoder;

typedef struct {
    int is_match;
    int is_repeat;
    usize length;
    usize distance;
} token;

static void fail(source *s, lz_status status) {
    if (s->status == LZ_OK)
        s->status = status;
}

static int ok(const source *s) { return s->status == LZ_OK; }

static usize left(const source *s) { return s->size - s->pos; }

static void open_source(source *s, const u8 *in, usize n) {
    s->in = in;
    s->size = n;
    s->pos = 0;
    s->status = LZ_OK;
}

static unsigned get(source *s) {
    if (left(s) == 0) {
        fail(s, LZ_TRUNCATED);
        return 0;
    }
    return s->in[s->pos++];
}

static usize get_le(source *s, unsigned bytes) {
    usize value = 0;
    unsigned i;
    for (i = 0; i < bytes; i++)
        value |= (usize)get(s) << (8 * i);
    return value;
}

static usize get_varint(source *s) {
    usize value = 0;
    unsigned shift, byte;
    for (shift = 0; shift < 35; shift += 7) {
        byte = get(s);
        value |= (usize)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
    fail(s, LZ_CORRUPT);
    return 0;
}

static const u8 *get_span(source *s, usize n) {
    const u8 *p = s->in + s->pos;
    if (left(s) < n) {
        fail(s, LZ_TRUNCATED);
        return 0;
    }
    s->pos += n;
    return p;
}

static void expect(source *s, unsigned byte) {
    if (get(s) != byte)
        fail(s, LZ_CORRUPT);
}

static usize read_header(source *s) {
    expect(s, 'L');
    expect(s, '7');
    return get_varint(s);
}

static usize match_length(source *s, unsigned field) {
    usize length = LZ_MIN_MATCH + field;
    return field == LZ_LEN_ESCAPE ? length + get_varint(s) : length;
}

static token read_token(source *s, usize last_distance) {
    unsigned lead = get(s);
    unsigned cls = lead >> 5 & 3;
    token t;
    t.is_match = (lead & 0x80) != 0;
    t.is_repeat = t.is_match && cls == LZ_DIST_REPEAT;
    t.distance = last_distance;
    if (!t.is_match) {
        t.length = (usize)lead + 1;
        return t;
    }
    t.length = match_length(s, lead & 31);
    if (!t.is_repeat)
        t.distance = get_le(s, cls + 1) + 1;
    return t;
}

static usize room(const decoder *d) { return d->cap - d->len; }

static void emit(decoder *d, u8 byte) {
    lz_sum_add(&d->sum, byte);
    d->out[d->len++] = byte;
}

static int fits(decoder *d, usize n) {
    if (room(d) < n)
        fail(&d->in, LZ_FULL);
    return ok(&d->in);
}

static void copy_literals(decoder *d, usize n) {
    const u8 *p = get_span(&d->in, n);
    if (!p || !fits(d, n))
        return;
    while (n--)
        emit(d, *p++);
}

/* Source and target may overlap: the copy goes byte by byte on purpose. */
static void copy_match(decoder *d, const token *t) {
    usize n;
    if (t->distance == 0 || t->distance > d->len)
        fail(&d->in, LZ_CORRUPT);
    if (!ok(&d->in) || !fits(d, t->length))
        return;
    for (n = t->length; n; n--)
        emit(d, d->out[d->len - t->distance]);
    d->distance = t->distance;
}

static void step(decoder *d) {
    token t = read_token(&d->in, d->distance);
    if (!ok(&d->in))
        return;
    if (t.is_match)
        copy_match(d, &t);
    else
        copy_literals(d, t.length);
}

static void check_sum(source *s, u32 expected) {
    if (get_le(s, 4) != expected)
        fail(s, LZ_BAD_SUM);
}

static void check_end(source *s) {
    if (left(s) != 0)
        fail(s, LZ_CORRUPT);
}

lz_status lz_decoded_size(const u8 *src, usize n, usize *size) {
    source s;
    open_source(&s, src, n);
    *size = read_header(&s);
    return s.status;
}

lz_status lz_decode(const u8 *src, usize n, u8 *dst, usize cap, usize *written) {
    decoder d;
    usize size;
    open_source(&d.in, src, n);
    size = read_header(&d.in);
    d.out = dst;
    d.len = 0;
    d.distance = 0;
    d.cap = size;
    lz_sum_start(&d.sum);
    if (size > cap)
        fail(&d.in, LZ_FULL);
    while (ok(&d.in) && room(&d))
        step(&d);
    if (ok(&d.in))
        check_sum(&d.in, lz_sum_value(&d.sum));
    if (ok(&d.in))
        check_end(&d.in);
    *written = d.len;
    return d.in.status;
}

static void count(lz_stats *stats, const token *t) {
    if (!t->is_match) {
        stats->literals += t->length;
        return;
    }
    stats->matches++;
    stats->repeats += (usize)t->is_repeat;
    if (t->length > stats->longest)
        stats->longest = t->length;
}

/* Walk the tokens without decoding, for statistics. */
lz_status lz_scan(const u8 *src, usize n, lz_stats *stats) {
    source s;
    usize size, seen = 0, distance = 0;
    stats->literals = stats->matches = stats->repeats = stats->longest = 0;
    open_source(&s, src, n);
    size = read_header(&s);
    while (ok(&s) && seen < size) {
        token t = read_token(&s, distance);
        if (!t.is_match)
            get_span(&s, t.length);
        if (ok(&s))
            count(stats, &t);
        distance = t.distance;
        seen += t.length;
    }
    return s.status;
}
