/* SPDX-License-Identifier: Apache-2.0
 * iter.c - walking over a map: folds, sorted views, set operations. */
#include "hashmap.h"

typedef int ordering(const hm_entry *x, const hm_entry *y);

static int at_end(const hm_iter *it) { return it->index > it->map->mask; }

static const hm_entry *current(const hm_iter *it) { return &it->map->slots[it->index]; }

static int is_used(const hm_entry *e) { return e->hash != 0; }

static void step(hm_iter *it) { it->index++; }

static hm_iter begin(const hm_map *m) {
    hm_iter it;
    it.map = m;
    it.index = 0;
    return it;
}

static const hm_entry *next(hm_iter *it) {
    while (!at_end(it)) {
        const hm_entry *e = current(it);
        step(it);
        if (is_used(e))
            return e;
    }
    return 0;
}

static int sign(hm_u64 x, hm_u64 y) { return x < y ? -1 : x > y; }

static hm_size shorter(hm_size x, hm_size y) { return x < y ? x : y; }

static int compare_bytes(const char *x, const char *y, hm_size n) {
    hm_size i;
    for (i = 0; i < n; i++)
        if (x[i] != y[i])
            return sign((unsigned char)x[i], (unsigned char)y[i]);
    return 0;
}

static int compare_text(hm_str x, hm_str y) {
    int order = compare_bytes(x.data, y.data, shorter(x.len, y.len));
    return order ? order : sign(x.len, y.len);
}

static int by_key(const hm_entry *x, const hm_entry *y) { return compare_text(x->key, y->key); }

/* Largest value first; equal values in the order of their keys. */
static int by_value(const hm_entry *x, const hm_entry *y) {
    int order = sign(y->value, x->value);
    return order ? order : by_key(x, y);
}

static void swap(const hm_entry **x, const hm_entry **y) {
    const hm_entry *t = *x;
    *x = *y;
    *y = t;
}

static void order_pair(const hm_entry **x, const hm_entry **y, ordering *compare) {
    if (compare(*y, *x) < 0)
        swap(x, y);
}

static void insertion_sort(const hm_entry **a, hm_size n, ordering *compare) {
    hm_size i, j;
    for (i = 1; i < n; i++)
        for (j = i; j > 0 && compare(a[j], a[j - 1]) < 0; j--)
            swap(&a[j], &a[j - 1]);
}

static const hm_entry *median(const hm_entry **a, hm_size n, ordering *compare) {
    order_pair(&a[0], &a[n / 2], compare);
    order_pair(&a[n / 2], &a[n - 1], compare);
    order_pair(&a[0], &a[n / 2], compare);
    return a[n / 2];
}

static void quick_sort(const hm_entry **a, hm_size n, ordering *compare) {
    while (n > 12) {
        const hm_entry *pivot = median(a, n, compare);
        hm_size i = 0, j = n - 1;
        for (;;) {
            while (compare(a[i], pivot) < 0)
                i++;
            while (compare(pivot, a[j]) < 0)
                j--;
            if (i >= j)
                break;
            swap(&a[i++], &a[j--]);
        }
        quick_sort(a + i, n - i, compare);
        n = i;
    }
    insertion_sort(a, n, compare);
}

static hm_size collect(const hm_map *m, const hm_entry **out, hm_size cap) {
    hm_iter it = begin(m);
    const hm_entry *e;
    hm_size n = 0;
    while (n < cap && (e = next(&it)) != 0)
        out[n++] = e;
    return n;
}

static hm_size sorted(const hm_map *m, const hm_entry **out, hm_size cap, ordering *compare) {
    hm_size n = collect(m, out, cap);
    quick_sort(out, n, compare);
    return n;
}

static int contains(const hm_map *m, hm_str key) {
    hm_u64 ignored;
    return hm_map_get(m, key, &ignored);
}

static int same_value(const hm_map *m, const hm_entry *e) {
    hm_u64 value;
    return hm_map_get(m, e->key, &value) && value == e->value;
}

static int copy_entry(hm_map *out, const hm_entry *e) {
    return hm_map_put(out, e->key, e->value);
}

/* The entries of x whose presence in y is as wanted. */
static int select_by_presence(hm_map *out, const hm_map *x, const hm_map *y, int wanted) {
    hm_iter it = begin(x);
    const hm_entry *e;
    while ((e = next(&it)) != 0)
        if (contains(y, e->key) == wanted && !copy_entry(out, e))
            return 0;
    return 1;
}

hm_iter hm_iter_start(const hm_map *m) { return begin(m); }

const hm_entry *hm_iter_next(hm_iter *it) { return next(it); }

hm_u64 hm_sum(const hm_map *m) {
    hm_iter it = begin(m);
    const hm_entry *e;
    hm_u64 sum = 0;
    while ((e = next(&it)) != 0)
        sum += e->value;
    return sum;
}

const hm_entry *hm_max(const hm_map *m) {
    hm_iter it = begin(m);
    const hm_entry *best = next(&it), *e;
    while ((e = next(&it)) != 0)
        if (by_value(e, best) < 0)
            best = e;
    return best;
}

hm_size hm_count_if(const hm_map *m, hm_filter *keep, void *context) {
    hm_iter it = begin(m);
    const hm_entry *e;
    hm_size n = 0;
    while ((e = next(&it)) != 0)
        n += keep(e, context) != 0;
    return n;
}

hm_size hm_sorted_by_key(const hm_map *m, const hm_entry **out, hm_size cap) {
    return sorted(m, out, cap, by_key);
}

hm_size hm_sorted_by_value(const hm_map *m, const hm_entry **out, hm_size cap) {
    return sorted(m, out, cap, by_value);
}

int hm_merge(hm_map *into, const hm_map *from) {
    hm_iter it = begin(from);
    const hm_entry *e;
    while ((e = next(&it)) != 0)
        if (!hm_map_add(into, e->key, e->value))
            return 0;
    return 1;
}

int hm_intersect(hm_map *out, const hm_map *x, const hm_map *y) {
    return select_by_presence(out, x, y, 1);
}

int hm_subtract(hm_map *out, const hm_map *x, const hm_map *y) {
    return select_by_presence(out, x, y, 0);
}

int hm_equal(const hm_map *x, const hm_map *y) {
    hm_iter it = begin(x);
    const hm_entry *e;
    if (x->count != y->count)
        return 0;
    while ((e = next(&it)) != 0)
        if (!same_value(y, e))
            return 0;
    return 1;
}
