/* SPDX-License-Identifier: Apache-2.0
 * cipher.h - a block cipher and a stream cipher. */
#ifndef CIPHER_H
#define CIPHER_H

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

typedef struct {
    u32 encrypt[44];
    u32 decrypt[44];
} aes_key;

void aes_tables(void);
void aes_expand(aes_key *key, const u8 bytes[16]);
void aes_encrypt(const aes_key *key, const u8 in[16], u8 out[16]);
void aes_decrypt(const aes_key *key, const u8 in[16], u8 out[16]);

void chacha_xor(const u32 key[8], const u32 nonce[3], u32 counter, u8 *data, usize size);

#endif
