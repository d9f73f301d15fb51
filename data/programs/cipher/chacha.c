/* SPDX-License-Identifier: Apache-2.0
 * chacha.c - ChaCha20 (RFC 8439), all sixteen words of the state in variables. */
#include "cipher.h"

static u32 rotl(u32 x, int n) { return x << n | x >> (32 - n); }

#define QUARTER(a, b, c, d)                                                                 \
    (a += b, d = rotl(d ^ a, 16), c += d, b = rotl(b ^ c, 12), a += b, d = rotl(d ^ a, 8), c += d, \
     b = rotl(b ^ c, 7))

static void block(const u32 in[16], u32 out[16]) {
    u32 x0 = in[0], x1 = in[1], x2 = in[2], x3 = in[3], x4 = in[4], x5 = in[5], x6 = in[6], x7 = in[7];
    u32 x8 = in[8], x9 = in[9], xa = in[10], xb = in[11], xc = in[12], xd = in[13], xe = in[14], xf = in[15];
    for (int i = 0; i < 10; i++) {
        QUARTER(x0, x4, x8, xc);
        QUARTER(x1, x5, x9, xd);
        QUARTER(x2, x6, xa, xe);
        QUARTER(x3, x7, xb, xf);
        QUARTER(x0, x5, xa, xf);
        QUARTER(x1, x6, xb, xc);
        QUARTER(x2, x7, x8, xd);
        QUARTER(x3, x4, x9, xe);
    }
    out[0] = x0 + in[0], out[1] = x1 + in[1], out[2] = x2 + in[2], out[3] = x3 + in[3];
    out[4] = x4 + in[4], out[5] = x5 + in[5], out[6] = x6 + in[6], out[7] = x7 + in[7];
    out[8] = x8 + in[8], out[9] = x9 + in[9], out[10] = xa + in[10], out[11] = xb + in[11];
    out[12] = xc + in[12], out[13] = xd + in[13], out[14] = xe + in[14], out[15] = xf + in[15];
}

void chacha_xor(const u32 key[8], const u32 nonce[3], u32 counter, u8 *data, usize size) {
    u32 state[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574};
    for (int i = 0; i < 8; i++)
        state[4 + i] = key[i];
    for (int i = 0; i < 3; i++)
        state[13 + i] = nonce[i];
    for (usize start = 0; start < size; start += 64) {
        u32 stream[16];
        usize left = size - start < 64 ? size - start : 64;
        state[12] = counter++;
        block(state, stream);
        for (usize i = 0; i < left; i++)
            data[start + i] ^= (u8)(stream[i / 4] >> i % 4 * 8);
    }
}
