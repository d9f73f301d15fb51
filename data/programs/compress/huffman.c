/* SPDX-License-Identifier: Apache-2.0
 * huffman.c - canonical Huffman codes of bytes; the header holds the size and 256 code lengths. */
#include "compress.h"

#define SYMBOLS 256
#define MAX_BITS 32
#define HEADER (8 + SYMBOLS)

typedef struct {
    u32 weight;
    int parent;
} node;

static int lighter(const node *nodes, int a, int b) {
    return nodes[a].weight < nodes[b].weight || (nodes[a].weight == nodes[b].weight && a < b);
}

static void sift_down(const node *nodes, int *heap, int size, int at) {
    int moved = heap[at];
    for (int child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && lighter(nodes, heap[child + 1], heap[child]))
            child++;
        if (!lighter(nodes, heap[child], moved))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

static int pop(const node *nodes, int *heap, int *size) {
    int top = heap[0];
    heap[0] = heap[--*size];
    sift_down(nodes, heap, *size, 0);
    return top;
}

static void code_lengths(const u32 *counts, u8 *lengths) {
    node nodes[2 * SYMBOLS];
    int heap[SYMBOLS], size = 0, used = SYMBOLS;
    for (int i = 0; i < SYMBOLS; i++) {
        nodes[i].weight = counts[i];
        nodes[i].parent = -1;
        if (counts[i])
            heap[size++] = i;
    }
    for (int i = size / 2 - 1; i >= 0; i--)
        sift_down(nodes, heap, size, i);
    while (size > 1) {
        int a = pop(nodes, heap, &size), b = pop(nodes, heap, &size);
        nodes[used].weight = nodes[a].weight + nodes[b].weight;
        nodes[used].parent = -1;
        nodes[a].parent = nodes[b].parent = used;
        heap[size++] = used++;
        for (int at = size - 1; at > 0 && lighter(nodes, heap[at], heap[(at - 1) / 2]); at = (at - 1) / 2) {
            int swapped = heap[at];
            heap[at] = heap[(at - 1) / 2];
            heap[(at - 1) / 2] = swapped;
        }
    }
    for (int i = 0; i < SYMBOLS; i++) {
        int length = 0;
        for (int at = nodes[i].parent; at >= 0; at = nodes[at].parent)
            length++;
        lengths[i] = (u8)(counts[i] && !length ? 1 : length);
    }
}

/* First code and rank of the first symbol of each length; symbols sorted by length. */
static void canonical(const u8 *lengths, u32 *first_code, u32 *first_rank, u32 *count, u8 *sorted) {
    u32 code = 0, rank = 0;
    for (int bits = 0; bits <= MAX_BITS; bits++) {
        first_code[bits] = code;
        first_rank[bits] = rank;
        count[bits] = 0;
        if (bits > 0)
            for (int i = 0; i < SYMBOLS; i++)
                if (lengths[i] == bits) {
                    sorted[rank++] = (u8)i;
                    count[bits]++;
                }
        code = (code + count[bits]) << 1;
    }
}

usize huffman_encode(const u8 *in, usize size, u8 *out) {
    u32 counts[SYMBOLS] = {0}, codes[SYMBOLS];
    u32 first_code[MAX_BITS + 1], first_rank[MAX_BITS + 1], count[MAX_BITS + 1];
    u8 sorted[SYMBOLS], *lengths = out + 8;
    u64 bits = 0;
    usize used = HEADER;
    int num_bits = 0;
    for (usize i = 0; i < size; i++)
        counts[in[i]]++;
    code_lengths(counts, lengths);
    canonical(lengths, first_code, first_rank, count, sorted);
    for (int length = 1; length <= MAX_BITS; length++)
        for (u32 i = 0; i < count[length]; i++)
            codes[sorted[first_rank[length] + i]] = first_code[length] + i;
    for (int i = 0; i < 8; i++)
        out[i] = (u8)(size >> 8 * i);
    for (usize i = 0; i < size; i++) {
        bits = bits << lengths[in[i]] | codes[in[i]];
        num_bits += lengths[in[i]];
        while (num_bits >= 8) {
            num_bits -= 8;
            out[used++] = (u8)(bits >> num_bits);
        }
    }
    if (num_bits > 0)
        out[used++] = (u8)(bits << (8 - num_bits));
    return used;
}

usize huffman_decode(const u8 *in, u8 *out) {
    u32 first_code[MAX_BITS + 1], first_rank[MAX_BITS + 1], count[MAX_BITS + 1];
    u8 sorted[SYMBOLS];
    usize size = 0, at = HEADER;
    u32 window = 0;
    int left = 0;
    for (int i = 0; i < 8; i++)
        size |= (usize)in[i] << 8 * i;
    canonical(in + 8, first_code, first_rank, count, sorted);
    for (usize i = 0; i < size; i++) {
        u32 code = 0;
        for (int length = 1;; length++) {
            if (left == 0) {
                window = in[at++];
                left = 8;
            }
            code = code << 1 | (window >> --left & 1);
            if (code - first_code[length] < count[length]) {
                out[i] = sorted[first_rank[length] + code - first_code[length]];
                break;
            }
        }
    }
    return size;
}
