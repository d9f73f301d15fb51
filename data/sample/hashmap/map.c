/* SPDX-License-Identifier: Apache-2.0
 * map.c - the hash table: open addressing with Robin Hood displacement, so
 * that lookups may stop early and removal needs no tombstones. */
#include "hashmap.h"

enum { MIN_SLOTS = 8 };

static const hm_size NOT_FOUND = (hm_size)-1;

static hm_u32 rotate(hm_u32 x, unsigned bits) { return x << bits | x >> (32 - bits); }

static hm_u32 mix(hm_u32 h, unsigned char byte) { return rotate(h ^ byte, 5) * 0x9e3779b1u; }

static hm_u32 finish(hm_u32 h) {
    h ^= h >> 15;
    h *= 0x85ebca6bu;
    h ^= h >> 13;
    return h ? h : 1;
}

static hm_u32 hash_of(hm_str key) {
    hm_u32 h = (hm_u32)key.len;
    hm_size i;
    for (i = 0; i < key.len; i++)
        h = mix(h, (unsigned char)key.data[i]);
    return finish(h);
}

static int same_text(hm_str x, hm_str y) {
    hm_size i;
    if (x.len != y.len)
        return 0;
    for (i = 0; i < x.len; i++)
        if (x.data[i] != y.data[i])
            return 0;
    return 1;
}

static hm_size slot_count(const hm_map *m) { return m->mask + 1; }

static hm_entry *slot(const hm_map *m, hm_size i) { return &m->slots[i]; }

static hm_size next_index(const hm_map *m, hm_size i) { return (i + 1) & m->mask; }

static hm_size home(const hm_map *m, hm_u32 hash) { return hash & m->mask; }

static int is_free(const hm_entry *e) { return e->hash == 0; }

static void set_free(hm_entry *e) { e->hash = 0; }

static int holds(const hm_entry *e, hm_str key, hm_u32 hash) {
    return e->hash == hash && same_text(e->key, key);
}

/* How far the entry in slot i is from where it would like to be. */
static hm_size displacement(const hm_map *m, hm_size i) {
    return (i - home(m, slot(m, i)->hash)) & m->mask;
}

static void swap_entries(hm_entry *x, hm_entry *y) {
    hm_entry t = *x;
    *x = *y;
    *y = t;
}

/* Seven eighths full is where probe sequences begin to get long. */
static int over_full(const hm_map *m) { return (m->count + 1) * 8 > slot_count(m) * 7; }

static hm_size slots_for(hm_size expected) {
    hm_size n = MIN_SLOTS;
    while (n * 7 < expected * 8)
        n *= 2;
    return n;
}

static hm_size find(const hm_map *m, hm_str key, hm_u32 hash) {
    hm_size i = home(m, hash), distance = 0;
    for (;; i = next_index(m, i), distance++) {
        if (is_free(slot(m, i)) || displacement(m, i) < distance)
            return NOT_FOUND;
        if (holds(slot(m, i), key, hash))
            return i;
    }
}

/* Insert an entry known to be absent; returns the slot it came to rest in. */
static hm_size place(hm_map *m, hm_entry entry) {
    hm_size i = home(m, entry.hash), distance = 0, result = NOT_FOUND;
    while (!is_free(slot(m, i))) {
        if (displacement(m, i) < distance) {
            distance = displacement(m, i);
            swap_entries(slot(m, i), &entry);
            if (result == NOT_FOUND)
                result = i;
        }
        i = next_index(m, i);
        distance++;
    }
    *slot(m, i) = entry;
    m->count++;
    return result == NOT_FOUND ? i : result;
}

static int new_slots(hm_map *m, hm_size n) {
    hm_entry *slots = hm_alloc_zero(m->arena, n, sizeof *slots);
    if (!slots)
        return 0;
    m->slots = slots;
    m->mask = n - 1;
    m->count = 0;
    return 1;
}

static int rehash(hm_map *m, hm_size n) {
    hm_map old = *m;
    hm_size i;
    if (!new_slots(m, n))
        return 0;
    for (i = 0; i < slot_count(&old); i++)
        if (!is_free(slot(&old, i)))
            place(m, *slot(&old, i));
    return 1;
}

static int reserve(hm_map *m) { return !over_full(m) || rehash(m, slot_count(m) * 2); }

static hm_size insert(hm_map *m, hm_str key, hm_u32 hash) {
    hm_entry e;
    if (!reserve(m))
        return NOT_FOUND;
    e.key = hm_str_copy(m->arena, key);
    e.value = 0;
    e.hash = hash;
    return e.key.len == key.len ? place(m, e) : NOT_FOUND;
}

static hm_u64 *value_at(const hm_map *m, hm_size i) {
    return i == NOT_FOUND ? 0 : &slot(m, i)->value;
}

static hm_u64 *existing(const hm_map *m, hm_str key) {
    return value_at(m, find(m, key, hash_of(key)));
}

int hm_map_init(hm_map *m, hm_arena *arena, hm_size expected) {
    m->arena = arena;
    return new_slots(m, slots_for(expected));
}

/* The value of a key, which is added with value zero if it is missing. */
hm_u64 *hm_map_slot(hm_map *m, hm_str key) {
    hm_u32 hash = hash_of(key);
    hm_size i = find(m, key, hash);
    return value_at(m, i == NOT_FOUND ? insert(m, key, hash) : i);
}

int hm_map_put(hm_map *m, hm_str key, hm_u64 value) {
    hm_u64 *p = hm_map_slot(m, key);
    if (p)
        *p = value;
    return p != 0;
}

int hm_map_add(hm_map *m, hm_str key, hm_u64 amount) {
    hm_u64 *p = hm_map_slot(m, key);
    if (p)
        *p += amount;
    return p != 0;
}

int hm_map_get(const hm_map *m, hm_str key, hm_u64 *value) {
    const hm_u64 *p = existing(m, key);
    if (p)
        *value = *p;
    return p != 0;
}

/* Close the gap: entries behind it move back until one is at home. */
static void shift_back(hm_map *m, hm_size gap) {
    hm_size i = next_index(m, gap);
    while (!is_free(slot(m, i)) && displacement(m, i) > 0) {
        *slot(m, gap) = *slot(m, i);
        gap = i;
        i = next_index(m, i);
    }
    set_free(slot(m, gap));
}

int hm_map_remove(hm_map *m, hm_str key) {
    hm_size i = find(m, key, hash_of(key));
    if (i == NOT_FOUND)
        return 0;
    shift_back(m, i);
    m->count--;
    return 1;
}

hm_size hm_map_longest_probe(const hm_map *m) {
    hm_size i, longest = 0;
    for (i = 0; i < slot_count(m); i++)
        if (!is_free(slot(m, i)) && displacement(m, i) + 1 > longest)
            longest = displacement(m, i) + 1;
    return longest;
}
