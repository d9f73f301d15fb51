/* SPDX-License-Identifier: Apache-2.0
 * arena.c - the bump allocator and the strings that live in it. */
#include "hashmap.h"

typedef __UINTPTR_TYPE__ address;

static hm_size round_up(hm_size n, hm_size align) { return (n + align - 1) & ~(align - 1); }

static int is_power_of_two(hm_size n) { return n != 0 && (n & (n - 1)) == 0; }

static hm_size available(const hm_arena *a) { return a->size - a->used; }

static unsigned char *top(const hm_arena *a) { return a->base + a->used; }

static hm_size padding(const hm_arena *a, hm_size align) {
    address here = (address)top(a);
    return (hm_size)(round_up(here, align) - here);
}

static void note_peak(hm_arena *a) {
    if (a->used > a->peak)
        a->peak = a->used;
}

static void set_used(hm_arena *a, hm_size used) {
    a->used = used;
    note_peak(a);
}

static void *bump(hm_arena *a, hm_size size) {
    void *p = top(a);
    a->last = a->used;
    set_used(a, a->used + size);
    return p;
}

static char *chars(hm_arena *a, hm_size n) { return hm_alloc(a, n, 1); }

static int is_newest(const hm_arena *a, const void *p) {
    return p && (const unsigned char *)p == a->base + a->last;
}

static hm_str make(const char *data, hm_size len) {
    hm_str s;
    s.data = data;
    s.len = data ? len : 0;
    return s;
}

static hm_str empty(void) { return make(0, 0); }

static char *append(char *out, hm_str s) {
    hm_size i;
    for (i = 0; i < s.len; i++)
        *out++ = s.data[i];
    return out;
}

static int is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

static char first(hm_str s) { return s.data[0]; }
static char last(hm_str s) { return s.data[s.len - 1]; }
static hm_str without_first(hm_str s) { return make(s.data + 1, s.len - 1); }
static hm_str without_last(hm_str s) { return make(s.data, s.len - 1); }

static char digit(unsigned value) { return "0123456789abcdefghijklmnopqrstuvwxyz"[value]; }

static unsigned digit_count(hm_u64 value, unsigned base) {
    unsigned n = 1;
    while (value >= base) {
        value /= base;
        n++;
    }
    return n;
}

void hm_arena_init(hm_arena *a, void *block, hm_size size) {
    a->base = block;
    a->size = size;
    a->used = a->peak = a->last = 0;
}

void *hm_alloc(hm_arena *a, hm_size size, hm_size align) {
    hm_size pad;
    if (!is_power_of_two(align))
        return 0;
    pad = padding(a, align);
    if (available(a) < pad || available(a) - pad < size)
        return 0;
    set_used(a, a->used + pad);
    return bump(a, size);
}

void *hm_alloc_zero(hm_arena *a, hm_size count, hm_size size) {
    unsigned char *p;
    hm_size i, bytes = count * size;
    if (size && bytes / size != count)
        return 0;
    p = hm_alloc(a, bytes, 16);
    for (i = 0; p && i < bytes; i++)
        p[i] = 0;
    return p;
}

/* Grow in place when nothing was allocated since, otherwise move. */
void *hm_grow(hm_arena *a, void *old, hm_size old_size, hm_size new_size) {
    void *p;
    if (new_size <= old_size)
        return old;
    if (is_newest(a, old) && available(a) >= new_size - old_size) {
        set_used(a, a->last + new_size);
        return old;
    }
    p = hm_alloc(a, new_size, 16);
    if (p && old)
        append(p, make(old, old_size));
    return p;
}

hm_size hm_mark(const hm_arena *a) { return a->used; }

void hm_release(hm_arena *a, hm_size mark) {
    if (mark <= a->used)
        a->used = a->last = mark;
}

hm_str hm_str_from(const char *text) { return make(text, __builtin_strlen(text)); }

hm_str hm_str_copy(hm_arena *a, hm_str s) {
    char *p = chars(a, s.len);
    if (!p)
        return empty();
    append(p, s);
    return make(p, s.len);
}

hm_str hm_str_concat(hm_arena *a, hm_str x, hm_str y) {
    char *p = chars(a, x.len + y.len);
    if (!p)
        return empty();
    append(append(p, x), y);
    return make(p, x.len + y.len);
}

hm_str hm_str_join(hm_arena *a, const hm_str *parts, hm_size n, hm_str separator) {
    hm_size i, total = 0;
    char *p, *end;
    for (i = 0; i < n; i++)
        total += parts[i].len + (i ? separator.len : 0);
    p = end = chars(a, total);
    if (!p)
        return empty();
    for (i = 0; i < n; i++) {
        if (i)
            end = append(end, separator);
        end = append(end, parts[i]);
    }
    return make(p, total);
}

hm_str hm_str_number(hm_arena *a, hm_u64 value, unsigned base) {
    unsigned n;
    hm_size i;
    char *p;
    if (base < 2 || base > 36)
        return empty();
    n = digit_count(value, base);
    p = chars(a, n);
    for (i = n; p && i > 0; value /= base)
        p[--i] = digit((unsigned)(value % base));
    return make(p, n);
}

hm_str hm_str_trim(hm_str s) {
    while (s.len && is_space(first(s)))
        s = without_first(s);
    while (s.len && is_space(last(s)))
        s = without_last(s);
    return s;
}
