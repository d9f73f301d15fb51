/* SPDX-License-Identifier: Apache-2.0
 * utf8.c - UTF-8: validation, counting, repair, to and from UTF-16. */
#include "codec.h"

enum { REPLACEMENT = 0xfffd, NO_CHAR = -1 };

typedef struct {
    const cd_byte *p;
    const cd_byte *end;
} cursor;

typedef struct {
    cd_byte *out;
    cd_size cap;
    cd_size len;
    int full;
} buffer;

static int in(cd_u32 c, cd_u32 lo, cd_u32 hi) { return c - lo <= hi - lo; }

static int is_ascii(cd_u32 c) { return c < 0x80; }
static int is_tail(cd_u32 b) { return (b & 0xc0) == 0x80; }
static int is_high_surrogate(cd_u32 c) { return in(c, 0xd800, 0xdbff); }
static int is_low_surrogate(cd_u32 c) { return in(c, 0xdc00, 0xdfff); }
static int is_surrogate(cd_u32 c) { return in(c, 0xd800, 0xdfff); }
static int is_scalar(cd_u32 c) { return c <= 0x10ffff && !is_surrogate(c); }

static cursor over(const cd_byte *p, cd_size n) {
    cursor c;
    c.p = p;
    c.end = p + n;
    return c;
}

static int at_end(const cursor *c) { return c->p == c->end; }

static cd_size left(const cursor *c) { return (cd_size)(c->end - c->p); }

/* How long the sequence is that this byte starts; 0 if it starts none. */
static unsigned sequence_length(cd_byte lead) {
    if (is_ascii(lead)) return 1;
    if (in(lead, 0xc2, 0xdf)) return 2;
    if (in(lead, 0xe0, 0xef)) return 3;
    return in(lead, 0xf0, 0xf4) ? 4 : 0;
}

static unsigned encoded_length(cd_u32 c) {
    return is_ascii(c) ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
}

static cd_u32 lead_bits(cd_byte lead, unsigned length) {
    return length == 1 ? lead : lead & (0xffu >> (length + 1));
}

static cd_u32 append_tail(cd_u32 c, cd_byte b) { return c << 6 | (b & 0x3f); }

static int well_formed(cd_u32 c, unsigned length) {
    return is_scalar(c) && encoded_length(c) == length;
}

/* The next character, or NO_CHAR; then the cursor has moved by one byte. */
static long next(cursor *c) {
    cd_byte lead = *c->p;
    unsigned length = sequence_length(lead), i;
    cd_u32 value = lead_bits(lead, length ? length : 1);
    if (length == 0 || left(c) < length) {
        c->p++;
        return NO_CHAR;
    }
    for (i = 1; i < length && is_tail(c->p[i]); i++)
        value = append_tail(value, c->p[i]);
    if (i < length || !well_formed(value, length)) {
        c->p++;
        return NO_CHAR;
    }
    c->p += length;
    return (long)value;
}

static cd_u32 next_or_replacement(cursor *c) {
    long value = next(c);
    return value == NO_CHAR ? REPLACEMENT : (cd_u32)value;
}

static buffer into(cd_byte *out, cd_size cap) {
    buffer b;
    b.out = out;
    b.cap = cap;
    b.len = 0;
    b.full = 0;
    return b;
}

static void put(buffer *b, cd_u32 byte) {
    if (b->len < b->cap)
        b->out[b->len++] = (cd_byte)byte;
    else
        b->full = 1;
}

static void put_tail(buffer *b, cd_u32 c, unsigned shift) { put(b, 0x80 | (c >> shift & 0x3f)); }

static void put_char(buffer *b, cd_u32 c) {
    switch (encoded_length(c)) {
    case 1:
        put(b, c);
        break;
    case 2:
        put(b, 0xc0 | c >> 6);
        put_tail(b, c, 0);
        break;
    case 3:
        put(b, 0xe0 | c >> 12);
        put_tail(b, c, 6);
        put_tail(b, c, 0);
        break;
    default:
        put(b, 0xf0 | c >> 18);
        put_tail(b, c, 12);
        put_tail(b, c, 6);
        put_tail(b, c, 0);
    }
}

static cd_size result(const buffer *b) { return b->full ? CODEC_ERROR : b->len; }

static cd_u32 join_surrogates(cd_u32 high, cd_u32 low) {
    return 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
}

static cd_u16 high_half(cd_u32 c) { return (cd_u16)(0xd800 + ((c - 0x10000) >> 10)); }
static cd_u16 low_half(cd_u32 c) { return (cd_u16)(0xdc00 + (c & 0x3ff)); }

/* Columns on a terminal: a coarse rule for combining and wide characters. */
static unsigned columns(cd_u32 c) {
    if (in(c, 0x300, 0x36f) || in(c, 0x200b, 0x200f) || in(c, 0xfe00, 0xfe0f))
        return 0;
    if (in(c, 0x1100, 0x115f) || in(c, 0x2e80, 0xa4cf) || in(c, 0xac00, 0xd7a3) ||
        in(c, 0xf900, 0xfaff) || in(c, 0xff00, 0xff60) || in(c, 0x1f300, 0x1faff))
        return 2;
    return 1;
}

/* Simple case folding for Latin-1, Greek and Cyrillic. */
static cd_u32 fold(cd_u32 c) {
    if (in(c, 'A', 'Z') || (in(c, 0xc0, 0xde) && c != 0xd7))
        return c + 0x20;
    if (in(c, 0x391, 0x3a9) || in(c, 0x410, 0x42f))
        return c + 0x20;
    return in(c, 0x400, 0x40f) ? c + 0x50 : c;
}

int utf8_valid(const cd_byte *p, cd_size n, cd_size *bad) {
    cursor c = over(p, n);
    while (!at_end(&c)) {
        const cd_byte *start = c.p;
        if (next(&c) == NO_CHAR) {
            *bad = (cd_size)(start - p);
            return 0;
        }
    }
    *bad = n;
    return 1;
}

cd_size utf8_count(const cd_byte *p, cd_size n) {
    cursor c = over(p, n);
    cd_size count = 0;
    for (; !at_end(&c); count++)
        next(&c);
    return count;
}

cd_size utf8_width(const cd_byte *p, cd_size n) {
    cursor c = over(p, n);
    cd_size width = 0;
    while (!at_end(&c))
        width += columns(next_or_replacement(&c));
    return width;
}

cd_size utf8_repair(const cd_byte *p, cd_size n, cd_byte *out, cd_size cap) {
    cursor c = over(p, n);
    buffer b = into(out, cap);
    while (!at_end(&c))
        put_char(&b, next_or_replacement(&c));
    return result(&b);
}

cd_size utf8_from_latin1(const cd_byte *p, cd_size n, cd_byte *out, cd_size cap) {
    buffer b = into(out, cap);
    while (n--)
        put_char(&b, *p++);
    return result(&b);
}

cd_size utf8_from_utf16(const cd_u16 *p, cd_size n, cd_byte *out, cd_size cap) {
    buffer b = into(out, cap);
    cd_size i;
    for (i = 0; i < n; i++) {
        if (is_high_surrogate(p[i]) && i + 1 < n && is_low_surrogate(p[i + 1])) {
            put_char(&b, join_surrogates(p[i], p[i + 1]));
            i++;
        } else {
            put_char(&b, is_surrogate(p[i]) ? REPLACEMENT : p[i]);
        }
    }
    return result(&b);
}

cd_size utf8_to_utf16(const cd_byte *p, cd_size n, cd_u16 *out, cd_size cap) {
    cursor c = over(p, n);
    cd_size len = 0;
    while (!at_end(&c)) {
        cd_u32 value = next_or_replacement(&c);
        unsigned units = value < 0x10000 ? 1 : 2;
        if (cap - len < units)
            return CODEC_ERROR;
        out[len++] = units == 1 ? (cd_u16)value : high_half(value);
        if (units == 2)
            out[len++] = low_half(value);
    }
    return len;
}

int utf8_same_folded(const cd_byte *p, cd_size n, const cd_byte *q, cd_size m) {
    cursor x = over(p, n), y = over(q, m);
    while (!at_end(&x) && !at_end(&y))
        if (fold(next_or_replacement(&x)) != fold(next_or_replacement(&y)))
            return 0;
    return at_end(&x) && at_end(&y);
}
