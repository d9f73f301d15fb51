/* SPDX-License-Identifier: Apache-2.0
 * codec.h - text encodings of bytes, checksums, Unicode transformation.
 *
 * Encoders and decoders return the number of units written or CODEC_ERROR
 * (bad input, or no room for the output).
 */
#ifndef CODEC_H
#define CODEC_H

typedef __UINT8_TYPE__ cd_byte;
typedef __UINT16_TYPE__ cd_u16;
typedef __UINT32_TYPE__ cd_u32;
typedef __UINT64_TYPE__ cd_u64;
typedef __SIZE_TYPE__ cd_size;

#define CODEC_ERROR ((cd_size)-1)

/* base64.c */
cd_size base64_encode(const cd_byte *in, cd_size n, char *out, cd_size cap);
cd_size base64_encode_url(const cd_byte *in, cd_size n, char *out, cd_size cap);
cd_size base64_decode(const char *in, cd_size n, cd_byte *out, cd_size cap);
cd_size base32_encode(const cd_byte *in, cd_size n, char *out, cd_size cap);
cd_size base32_decode(const char *in, cd_size n, cd_byte *out, cd_size cap);
cd_size hex_encode(const cd_byte *in, cd_size n, char *out, cd_size cap);
cd_size hex_decode(const char *in, cd_size n, cd_byte *out, cd_size cap);

/* crc.c */
typedef struct {
    unsigned width;
    cd_u64 polynomial;
    cd_u64 start;
    cd_u64 final_xor;
    int reflected;
} crc_model;

cd_u64 crc_generic(const crc_model *model, const cd_byte *p, cd_size n);
cd_u32 crc32_of(const cd_byte *p, cd_size n);
cd_u32 crc32_update(cd_u32 crc, const cd_byte *p, cd_size n);
cd_u32 crc32_combine(cd_u32 first, cd_u32 second, cd_size second_size);
cd_u16 crc16_ccitt(const cd_byte *p, cd_size n);
cd_byte crc8_of(const cd_byte *p, cd_size n);
cd_u32 adler32_of(const cd_byte *p, cd_size n);
cd_u32 fletcher32_of(const cd_byte *p, cd_size n);
int luhn_valid(const char *digits, cd_size n);
cd_u64 siphash24(const cd_byte key[16], const cd_byte *p, cd_size n);

/* utf8.c */
int utf8_valid(const cd_byte *p, cd_size n, cd_size *bad);
cd_size utf8_count(const cd_byte *p, cd_size n);
cd_size utf8_width(const cd_byte *p, cd_size n);
cd_size utf8_repair(const cd_byte *p, cd_size n, cd_byte *out, cd_size cap);
cd_size utf8_from_utf16(const cd_u16 *p, cd_size n, cd_byte *out, cd_size cap);
cd_size utf8_to_utf16(const cd_byte *p, cd_size n, cd_u16 *out, cd_size cap);
cd_size utf8_from_latin1(const cd_byte *p, cd_size n, cd_byte *out, cd_size cap);
int utf8_same_folded(const cd_byte *p, cd_size n, const cd_byte *q, cd_size m);

#endif
