// SPDX-License-Identifier: Apache-2.0
// main.cpp - three algorithms on whole numbers, fractions, records and text.
#include "sort.hpp"

extern "C" {
int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);
}

namespace {

u64 random_state;

u32 next_random() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<u32>(random_state >> 33);
}

struct record {
    u32 key, rank;
    double weight;
};

struct word {
    char text[8];
};

void fill(u32 &value, u32) { value = next_random(); }
void fill(double &value, u32) { value = next_random() / 1024.0 - 1e6; }
void fill(record &value, u32 index) { value = {next_random() % 500, index, next_random() % 4 * 0.25}; }
void fill(word &value, u32) {
    u32 length = next_random() % 6 + 1;
    for (u32 i = 0; i < 8; ++i)
        value.text[i] = i < length ? static_cast<char>('a' + next_random() % 4) : '\0';
}

bool before(u32 a, u32 b) { return a < b; }
bool before(double a, double b) { return a > b; } // descending
// By key, then by weight, descending; equal ones are told apart by their rank unless the sort is stable.
bool before(const record &a, const record &b) {
    if (a.key != b.key)
        return a.key < b.key;
    if (a.weight != b.weight)
        return a.weight > b.weight;
    return a.rank < b.rank;
}
bool before(const word &a, const word &b) {
    int i = 0;
    while (i < 7 && a.text[i] == b.text[i])
        ++i;
    return a.text[i] < b.text[i];
}

void show(u32 value) { printf(" %u", value); }
void show(double value) { printf(" %ld/1024", static_cast<long>(value * 1024)); } // exact
void show(const record &value) { printf(" %u/%u/%u", value.key, static_cast<u32>(value.weight * 100), value.rank); }
void show(const word &value) { printf(" %s", value.text); }

template <typename T> bool sorted(const T *first, const T *last) {
    for (; first + 1 < last; ++first)
        if (before(first[1], first[0]))
            return false;
    return true;
}

template <typename T> bool same(const T *a, const T *b, usize size) {
    for (usize i = 0; i < size; ++i)
        if (before(a[i], b[i]) || before(b[i], a[i]))
            return false;
    return true;
}

template <typename T> bool sort_all_ways(const char *name, u32 size) {
    auto less = [](const T &a, const T &b) { return before(a, b); };
    T *memory = static_cast<T *>(malloc(4 * size * sizeof(T)));
    if (!memory)
        return false;
    T *a = memory, *b = a + size, *c = b + size, *buffer = c + size;
    random_state = 7;
    for (u32 i = 0; i < size; ++i) {
        fill(a[i], i);
        b[i] = c[i] = a[i];
    }
    sorting::quick(a, a + size, less);
    sorting::heap(b, b + size, less);
    sorting::merge(c, c + size, buffer, less);
    bool good = sorted(a, a + size) && same(a, b, size) && same(a, c, size);
    printf("%s:", name);
    for (u32 i = 0; i < 5; ++i)
        show(a[i * (size - 1) / 4]);
    printf(" %s\n", good ? "sorted" : "not sorted");
    sorting::quick(a, a + size, less); // what is sorted already
    good = good && same(a, b, size);
    free(memory);
    return good;
}

} // namespace

int main() {
    bool good = sort_all_ways<u32>("numbers", 14001);
    good = sort_all_ways<double>("fractions", 10001) && good;
    good = sort_all_ways<record>("records", 8001) && good;
    good = sort_all_ways<word>("words", 6001) && good;
    return good ? 0 : 1;
}
