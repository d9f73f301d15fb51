/* SPDX-License-Identifier: Apache-2.0
 * hashmap.h - string interning arena, string hash table, iteration over it.
 *
 * All memory comes from one block handed over by the caller.
 */
#ifndef HASHMAP_H
#define HASHMAP_H

typedef __UINT32_TYPE__ hm_u32;
typedef __UINT64_TYPE__ hm_u64;
typedef __SIZE_TYPE__ hm_size;

typedef struct {
    const char *data;
    hm_size len;
} hm_str;

/* Bump allocator: allocation moves `used` up, release moves it back. */
typedef struct {
    unsigned char *base;
    hm_size size;
    hm_size used;
    hm_size peak;
    hm_size last; /* start of the newest allocation, which may still grow */
} hm_arena;

typedef struct {
    hm_str key;
    hm_u64 value;
    hm_u32 hash; /* 0 = free slot */
} hm_entry;

typedef struct {
    hm_arena *arena;
    hm_entry *slots;
    hm_size count;
    hm_size mask; /* number of slots - 1 */
} hm_map;

typedef struct {
    const hm_map *map;
    hm_size index;
} hm_iter;

typedef int hm_filter(const hm_entry *entry, void *context);

/* arena.c */
void hm_arena_init(hm_arena *a, void *block, hm_size size);
void *hm_alloc(hm_arena *a, hm_size size, hm_size align);
void *hm_alloc_zero(hm_arena *a, hm_size count, hm_size size);
void *hm_grow(hm_arena *a, void *old, hm_size old_size, hm_size new_size);
hm_size hm_mark(const hm_arena *a);
void hm_release(hm_arena *a, hm_size mark);
hm_str hm_str_from(const char *text);
hm_str hm_str_copy(hm_arena *a, hm_str s);
hm_str hm_str_concat(hm_arena *a, hm_str x, hm_str y);
hm_str hm_str_join(hm_arena *a, const hm_str *parts, hm_size n, hm_str separator);
hm_str hm_str_number(hm_arena *a, hm_u64 value, unsigned base);
hm_str hm_str_trim(hm_str s);

/* map.c */
int hm_map_init(hm_map *m, hm_arena *arena, hm_size expected);
int hm_map_put(hm_map *m, hm_str key, hm_u64 value);
int hm_map_add(hm_map *m, hm_str key, hm_u64 amount);
int hm_map_get(const hm_map *m, hm_str key, hm_u64 *value);
int hm_map_remove(hm_map *m, hm_str key);
hm_u64 *hm_map_slot(hm_map *m, hm_str key);
hm_size hm_map_longest_probe(const hm_map *m);

/* iter.c */
hm_iter hm_iter_start(const hm_map *m);
const hm_entry *hm_iter_next(hm_iter *it);
hm_u64 hm_sum(const hm_map *m);
const hm_entry *hm_max(const hm_map *m);
hm_size hm_count_if(const hm_map *m, hm_filter *keep, void *context);
hm_size hm_sorted_by_key(const hm_map *m, const hm_entry **out, hm_size cap);
hm_size hm_sorted_by_value(const hm_map *m, const hm_entry **out, hm_size cap);
int hm_merge(hm_map *into, const hm_map *from);
int hm_intersect(hm_map *out, const hm_map *x, const hm_map *y);
int hm_subtract(hm_map *out, const hm_map *x, const hm_map *y);
int hm_equal(const hm_map *x, const hm_map *y);

#endif
