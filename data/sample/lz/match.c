/* SPDX-License-Identifier: Apache-2.0
 * match.c - the match finder: hash chains over three-byte prefixes. */
#include "lz.h"

static u32 load3(const u8 *p) { return (u32)p[0] | (u32)p[1] << 8 | (u32)p[2] << 16; }

static u32 hash3(const u8 *p) { return (load3(p) * 2654435761u) >> (32 - LZ_HASH_BITS); }

static const u8 *at(const lz_matcher *m, usize pos) { return m->base + pos; }

static usize remaining(const lz_matcher *m, usize pos) { return m->size - pos; }

static int hashable(const lz_matcher *m, usize pos) {
    return pos < m->size && remaining(m, pos) >= LZ_MIN_MATCH;
}

static u32 *chain_slot(lz_matcher *m, usize pos) { return &m->prev[pos & (LZ_WINDOW - 1)]; }

static u32 *head_slot(lz_matcher *m, usize pos) { return &m->head[hash3(at(m, pos))]; }

/* Candidates are stored as position + 1, so that zero means "none". */
static u32 encode_pos(usize pos) { return (u32)pos + 1; }
static usize decode_pos(u32 link) { return (usize)link - 1; }

static int in_window(usize pos, usize candidate) {
    return candidate < pos && pos - candidate < LZ_WINDOW;
}

static void insert_one(lz_matcher *m, usize pos) {
    u32 *head;
    if (!hashable(m, pos))
        return;
    head = head_slot(m, pos);
    *chain_slot(m, pos) = *head;
    *head = encode_pos(pos);
}

static void insert_upto(lz_matcher *m, usize end) {
    while (m->next < end)
        insert_one(m, m->next++);
}

static usize common_prefix(const u8 *a, const u8 *b, usize limit) {
    usize n = 0;
    while (n + 4 <= limit && a[n] == b[n] && a[n + 1] == b[n + 1] && a[n + 2] == b[n + 2] &&
           a[n + 3] == b[n + 3])
        n += 4;
    while (n < limit && a[n] == b[n])
        n++;
    return n;
}

static lz_match no_match(void) {
    lz_match none = {0, 0};
    return none;
}

static int is_match(lz_match x) { return x.length >= LZ_MIN_MATCH; }

static unsigned distance_bytes(const lz_matcher *m, usize distance) {
    if (distance == m->last_distance)
        return 0;
    return distance <= 0x100 ? 1 : distance <= 0x10000 ? 2 : 3;
}

static unsigned length_bytes(usize length) {
    usize extra;
    unsigned n = 1;
    if (length < LZ_MIN_MATCH + LZ_LEN_ESCAPE)
        return 0;
    for (extra = length - LZ_MIN_MATCH - LZ_LEN_ESCAPE; extra >= 0x80; extra >>= 7)
        n++;
    return n;
}

/* Bytes saved against sending the same bytes as literals. */
static long gain(const lz_matcher *m, lz_match x) {
    long cost = 1 + (long)distance_bytes(m, x.distance) + (long)length_bytes(x.length);
    return is_match(x) ? (long)x.length - cost : 0;
}

static lz_match better(const lz_matcher *m, lz_match x, lz_match y) {
    return gain(m, y) > gain(m, x) ? y : x;
}

static lz_match measure(const lz_matcher *m, usize pos, usize candidate) {
    lz_match x;
    x.length = common_prefix(at(m, candidate), at(m, pos), remaining(m, pos));
    x.distance = pos - candidate;
    return is_match(x) ? x : no_match();
}

/* The previous distance is cheap to name again, so it is tried first. */
static lz_match try_repeat(const lz_matcher *m, usize pos) {
    if (m->last_distance == 0 || m->last_distance > pos)
        return no_match();
    return measure(m, pos, pos - m->last_distance);
}

/* A longer match has to agree on the byte just past the best one so far. */
static int worth_measuring(const lz_matcher *m, usize pos, usize candidate, lz_match best) {
    return best.length < remaining(m, pos) &&
           *at(m, candidate + best.length) == *at(m, pos + best.length);
}

static lz_match walk_chain(lz_matcher *m, usize pos, unsigned depth) {
    lz_match best = try_repeat(m, pos);
    u32 link = *head_slot(m, pos);
    while (link && depth--) {
        usize candidate = decode_pos(link);
        if (!in_window(pos, candidate))
            break;
        if (worth_measuring(m, pos, candidate, best))
            best = better(m, best, measure(m, pos, candidate));
        link = *chain_slot(m, candidate);
    }
    return best;
}

void lz_matcher_init(lz_matcher *m, const u8 *data, usize size) {
    usize i;
    m->base = data;
    m->size = size;
    m->next = 0;
    m->last_distance = 0;
    for (i = 0; i < sizeof m->head / sizeof m->head[0]; i++)
        m->head[i] = 0;
}

void lz_matcher_skip(lz_matcher *m, usize upto) { insert_upto(m, upto < m->size ? upto : m->size); }

void lz_matcher_accept(lz_matcher *m, lz_match x) {
    if (is_match(x))
        m->last_distance = (u32)x.distance;
}

lz_match lz_matcher_find(lz_matcher *m, usize pos, unsigned depth) {
    lz_match x;
    if (!hashable(m, pos))
        return no_match();
    insert_upto(m, pos);
    x = walk_chain(m, pos, depth);
    return gain(m, x) > 0 ? x : no_match();
}

/* Lazy matching: would waiting one byte give a clearly better match? */
int lz_matcher_better_later(lz_matcher *m, usize pos, lz_match now) {
    lz_match later;
    if (now.length >= 32 || !hashable(m, pos + 1))
        return 0;
    insert_upto(m, pos + 1);
    later = walk_chain(m, pos + 1, 8);
    return is_match(later) && gain(m, later) > gain(m, now) + 1;
}

long lz_match_gain(const lz_matcher *m, lz_match x) { return gain(m, x); }
