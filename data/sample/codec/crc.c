/* SPDX-License-Identifier: Apache-2.0
 * crc.c - checksums and a keyed hash: CRC of any width, Adler, Fletcher,
 * Luhn digits, SipHash-2-4. */
#include "codec.h"

static cd_u64 low_bits(unsigned n) { return n >= 64 ? ~(cd_u64)0 : ((cd_u64)1 << n) - 1; }

static int bit(cd_u64 x, unsigned i) { return (int)(x >> i & 1); }

static cd_u64 reflect(cd_u64 x, unsigned width) {
    cd_u64 y = 0;
    unsigned i;
    for (i = 0; i < width; i++)
        y |= (cd_u64)bit(x, i) << (width - 1 - i);
    return y;
}

/* One step towards the high end, resp. the low end for reflected models. */
static cd_u64 step_up(cd_u64 crc, cd_u64 polynomial, unsigned width) {
    return (crc << 1 ^ (bit(crc, width - 1) ? polynomial : 0)) & low_bits(width);
}

static cd_u64 step_down(cd_u64 crc, cd_u64 reflected_polynomial) {
    return crc >> 1 ^ (bit(crc, 0) ? reflected_polynomial : 0);
}

static cd_u64 byte_up(cd_u64 crc, cd_byte b, cd_u64 polynomial, unsigned width) {
    int i;
    crc ^= (cd_u64)b << (width - 8);
    for (i = 0; i < 8; i++)
        crc = step_up(crc, polynomial, width);
    return crc;
}

static cd_u64 byte_down(cd_u64 crc, cd_byte b, cd_u64 reflected_polynomial) {
    int i;
    crc ^= b;
    for (i = 0; i < 8; i++)
        crc = step_down(crc, reflected_polynomial);
    return crc;
}

static cd_u64 run_up(const crc_model *m, const cd_byte *p, cd_size n) {
    cd_u64 crc = m->start;
    while (n--)
        crc = byte_up(crc, *p++, m->polynomial, m->width);
    return crc;
}

static cd_u64 run_down(const crc_model *m, const cd_byte *p, cd_size n) {
    cd_u64 polynomial = reflect(m->polynomial, m->width);
    cd_u64 crc = reflect(m->start, m->width);
    while (n--)
        crc = byte_down(crc, *p++, polynomial);
    return crc;
}

static crc_model model(unsigned width, cd_u64 polynomial, cd_u64 start, cd_u64 final_xor,
                       int reflected) {
    crc_model m;
    m.width = width;
    m.polynomial = polynomial;
    m.start = start;
    m.final_xor = final_xor;
    m.reflected = reflected;
    return m;
}

static cd_u64 run(const crc_model *m, const cd_byte *p, cd_size n) {
    return (m->reflected ? run_down(m, p, n) : run_up(m, p, n)) ^ m->final_xor;
}

/* Widths of 8 to 64 bits. */
cd_u64 crc_generic(const crc_model *m, const cd_byte *p, cd_size n) { return run(m, p, n); }

cd_u16 crc16_ccitt(const cd_byte *p, cd_size n) {
    crc_model m = model(16, 0x1021, 0xffff, 0, 0);
    return (cd_u16)run(&m, p, n);
}

cd_byte crc8_of(const cd_byte *p, cd_size n) {
    crc_model m = model(8, 0x07, 0, 0, 0);
    return (cd_byte)run(&m, p, n);
}

/* CRC-32 with a nibble table, and combination by GF(2) polynomials. */

static cd_u32 nibble(cd_u32 crc) {
    static const cd_u32 table[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    return crc >> 4 ^ table[crc & 15];
}

static cd_u32 crc32_byte(cd_u32 crc, cd_byte b) { return nibble(nibble(crc ^ b)); }

cd_u32 crc32_update(cd_u32 crc, const cd_byte *p, cd_size n) {
    crc = ~crc;
    while (n--)
        crc = crc32_byte(crc, *p++);
    return ~crc;
}

cd_u32 crc32_of(const cd_byte *p, cd_size n) { return crc32_update(0, p, n); }

static cd_u32 times_x(cd_u32 a) { return (cd_u32)step_down(a, 0xedb88320u); }

static cd_u32 multiply(cd_u32 a, cd_u32 b) {
    cd_u32 product = 0;
    int i;
    for (i = 31; i >= 0; i--) {
        if (bit(a, (unsigned)i))
            product ^= b;
        b = times_x(b);
    }
    return product;
}

static cd_u32 x_to_the(cd_size bits) {
    cd_u32 result = 0x80000000u, square = times_x(0x80000000u);
    for (; bits; bits >>= 1) {
        if (bit(bits, 0))
            result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

/* The CRC of two blocks put together, from the CRCs of both. */
cd_u32 crc32_combine(cd_u32 first, cd_u32 second, cd_size second_size) {
    return multiply(first, x_to_the(second_size * 8)) ^ second;
}

/* Sums */

static cd_u32 add_mod(cd_u32 x, cd_u32 y, cd_u32 modulus) { return (x + y) % modulus; }

static cd_u32 pair(cd_u32 high, cd_u32 low) { return high << 16 | low; }

cd_u32 adler32_of(const cd_byte *p, cd_size n) {
    cd_u32 a = 1, b = 0;
    for (; n; n--) {
        a = add_mod(a, *p++, 65521);
        b = add_mod(b, a, 65521);
    }
    return pair(b, a);
}

/* Over 16-bit little endian words; an odd last byte is padded with zero. */
cd_u32 fletcher32_of(const cd_byte *p, cd_size n) {
    cd_u32 a = 0, b = 0;
    cd_size i;
    for (i = 0; i < n; i += 2) {
        a = add_mod(a, p[i] | (i + 1 < n ? (cd_u32)p[i + 1] << 8 : 0), 65535);
        b = add_mod(b, a, 65535);
    }
    return pair(b, a);
}

static int is_digit(char c) { return c >= '0' && c <= '9'; }

static int luhn_digit(int v, int doubled) { return !doubled ? v : v > 4 ? 2 * v - 9 : 2 * v; }

int luhn_valid(const char *digits, cd_size n) {
    int sum = 0;
    cd_size i;
    for (i = 0; i < n; i++) {
        if (!is_digit(digits[i]))
            return 0;
        sum += luhn_digit(digits[i] - '0', (n - i) % 2 == 0);
    }
    return n > 0 && sum % 10 == 0;
}

/* SipHash */

typedef struct {
    cd_u64 a, b, c, d;
} sip_state;

static cd_u64 rotate(cd_u64 x, unsigned n) { return x << n | x >> (64 - n); }

static cd_u64 load_le(const cd_byte *p, cd_size n) {
    cd_u64 x = 0;
    while (n--)
        x = x << 8 | p[n];
    return x;
}

static void add_rotate(cd_u64 *x, cd_u64 *y, unsigned n) {
    *x += *y;
    *y = rotate(*y, n) ^ *x;
}

static void sip_round(sip_state *s) {
    add_rotate(&s->a, &s->b, 13);
    s->a = rotate(s->a, 32);
    add_rotate(&s->c, &s->d, 16);
    add_rotate(&s->a, &s->d, 21);
    add_rotate(&s->c, &s->b, 17);
    s->c = rotate(s->c, 32);
}

static void sip_word(sip_state *s, cd_u64 word) {
    s->d ^= word;
    sip_round(s);
    sip_round(s);
    s->a ^= word;
}

cd_u64 siphash24(const cd_byte key[16], const cd_byte *p, cd_size n) {
    cd_u64 k0 = load_le(key, 8), k1 = load_le(key + 8, 8), length = n;
    sip_state s;
    int i;
    s.a = k0 ^ 0x736f6d6570736575u;
    s.b = k1 ^ 0x646f72616e646f6du;
    s.c = k0 ^ 0x6c7967656e657261u;
    s.d = k1 ^ 0x7465646279746573u;
    for (; n >= 8; n -= 8, p += 8)
        sip_word(&s, load_le(p, 8));
    sip_word(&s, length << 56 | load_le(p, n));
    s.c ^= 0xff;
    for (i = 0; i < 4; i++)
        sip_round(&s);
    return s.a ^ s.b ^ s.c ^ s.d;
}
