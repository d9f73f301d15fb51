/* SPDX-License-Identifier: Apache-2.0
 * base64.c - base64, base32 and hexadecimal: one bit queue serves them all. */
#include "codec.h"

typedef struct {
    cd_u32 bits;
    unsigned count;
} bit_queue;

typedef struct {
    char *text;
    cd_byte *bytes; /* a writer has either text or bytes */
    cd_size cap;
    cd_size len;
    int failed;
} writer;

static void clear(bit_queue *q) { q->bits = q->count = 0; }

static int holds(const bit_queue *q, unsigned n) { return q->count >= n; }

static void push_bits(bit_queue *q, unsigned value, unsigned n) {
    q->bits = q->bits << n | value;
    q->count += n;
}

static unsigned mask(unsigned n) { return (1u << n) - 1; }

static unsigned pop_bits(bit_queue *q, unsigned n) {
    q->count -= n;
    return q->bits >> q->count & mask(n);
}

/* The last bits, filled up with zeros on the right. */
static unsigned drain(bit_queue *q, unsigned n) {
    unsigned missing = n - q->count;
    push_bits(q, 0, missing);
    return pop_bits(q, n);
}

static int only_zeros_left(const bit_queue *q) { return (q->bits & mask(q->count)) == 0; }

static writer text_writer(char *out, cd_size cap) {
    writer w = {0, 0, 0, 0, 0};
    w.text = out;
    w.cap = cap;
    return w;
}

static writer byte_writer(cd_byte *out, cd_size cap) {
    writer w = {0, 0, 0, 0, 0};
    w.bytes = out;
    w.cap = cap;
    return w;
}

static int room(writer *w) {
    if (w->len >= w->cap)
        w->failed = 1;
    return !w->failed;
}

static void put_char(writer *w, char c) {
    if (room(w))
        w->text[w->len++] = c;
}

static void put_byte(writer *w, unsigned value) {
    if (room(w))
        w->bytes[w->len++] = (cd_byte)value;
}

static void fail(writer *w) { w->failed = 1; }

static cd_size result(const writer *w) { return w->failed ? CODEC_ERROR : w->len; }

static void pad_to(writer *w, cd_size multiple) {
    while (!w->failed && w->len % multiple != 0)
        put_char(w, '=');
}

/* Digits */

static int between(int c, int lo, int hi) { return c >= lo && c <= hi; }

static int offset(int c, int first, int value) { return c - first + value; }

static char digit64(unsigned v, int url) {
    if (v < 26) return (char)('A' + v);
    if (v < 52) return (char)('a' + v - 26);
    if (v < 62) return (char)('0' + v - 52);
    if (v == 62) return url ? '-' : '+';
    return url ? '_' : '/';
}

static char digit32(unsigned v) { return (char)(v < 26 ? 'A' + v : '2' + v - 26); }

static char digit16(unsigned v) { return (char)(v < 10 ? '0' + v : 'a' + v - 10); }

static int value64(int c) {
    if (between(c, 'A', 'Z')) return offset(c, 'A', 0);
    if (between(c, 'a', 'z')) return offset(c, 'a', 26);
    if (between(c, '0', '9')) return offset(c, '0', 52);
    if (c == '+' || c == '-') return 62;
    return c == '/' || c == '_' ? 63 : -1;
}

static int value32(int c) {
    if (between(c, 'A', 'Z')) return offset(c, 'A', 0);
    if (between(c, 'a', 'z')) return offset(c, 'a', 0);
    return between(c, '2', '7') ? offset(c, '2', 26) : -1;
}

static int value16(int c) {
    if (between(c, '0', '9')) return offset(c, '0', 0);
    if (between(c, 'a', 'f')) return offset(c, 'a', 10);
    return between(c, 'A', 'F') ? offset(c, 'A', 10) : -1;
}

/* Encoders */

static cd_size encode64(const cd_byte *in, cd_size n, char *out, cd_size cap, int url) {
    writer w = text_writer(out, cap);
    bit_queue q;
    cd_size i;
    clear(&q);
    for (i = 0; i < n; i++) {
        push_bits(&q, in[i], 8);
        while (holds(&q, 6))
            put_char(&w, digit64(pop_bits(&q, 6), url));
    }
    if (holds(&q, 1))
        put_char(&w, digit64(drain(&q, 6), url));
    if (!url)
        pad_to(&w, 4);
    return result(&w);
}

cd_size base64_encode(const cd_byte *in, cd_size n, char *out, cd_size cap) {
    return encode64(in, n, out, cap, 0);
}

/* The alphabet that is safe in an address; no padding. */
cd_size base64_encode_url(const cd_byte *in, cd_size n, char *out, cd_size cap) {
    return encode64(in, n, out, cap, 1);
}

cd_size base32_encode(const cd_byte *in, cd_size n, char *out, cd_size cap) {
    writer w = text_writer(out, cap);
    bit_queue q;
    cd_size i;
    clear(&q);
    for (i = 0; i < n; i++) {
        push_bits(&q, in[i], 8);
        while (holds(&q, 5))
            put_char(&w, digit32(pop_bits(&q, 5)));
    }
    if (holds(&q, 1))
        put_char(&w, digit32(drain(&q, 5)));
    pad_to(&w, 8);
    return result(&w);
}

cd_size hex_encode(const cd_byte *in, cd_size n, char *out, cd_size cap) {
    writer w = text_writer(out, cap);
    cd_size i;
    for (i = 0; i < n; i++) {
        put_char(&w, digit16(in[i] >> 4));
        put_char(&w, digit16(in[i] & 15));
    }
    return result(&w);
}

/* Decoders */

static cd_size without_padding(const char *in, cd_size n) {
    while (n && in[n - 1] == '=')
        n--;
    return n;
}

static cd_size decode(const char *in, cd_size n, cd_byte *out, cd_size cap, unsigned width,
                      int (*value)(int)) {
    writer w = byte_writer(out, cap);
    bit_queue q;
    cd_size i;
    clear(&q);
    for (i = 0; i < n && !w.failed; i++) {
        int v = value((unsigned char)in[i]);
        if (v < 0)
            fail(&w);
        else
            push_bits(&q, (unsigned)v, width);
        if (holds(&q, 8))
            put_byte(&w, pop_bits(&q, 8));
    }
    if (holds(&q, width) || !only_zeros_left(&q))
        fail(&w);
    return result(&w);
}

cd_size base64_decode(const char *in, cd_size n, cd_byte *out, cd_size cap) {
    return decode(in, without_padding(in, n), out, cap, 6, value64);
}

cd_size base32_decode(const char *in, cd_size n, cd_byte *out, cd_size cap) {
    return decode(in, without_padding(in, n), out, cap, 5, value32);
}

cd_size hex_decode(const char *in, cd_size n, cd_byte *out, cd_size cap) {
    return decode(in, n, out, cap, 4, value16);
}
