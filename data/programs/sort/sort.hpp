// SPDX-License-Identifier: Apache-2.0
// sort.hpp - quicksort, heapsort and mergesort for any type and order.
#ifndef SORT_HPP
#define SORT_HPP

using u32 = unsigned int;
using u64 = unsigned long;
using usize = unsigned long;

namespace sorting {

template <typename T> inline void swap(T &a, T &b) {
    T kept = a;
    a = b;
    b = kept;
}

template <typename T, typename Less> void insertion(T *first, T *last, Less less) {
    for (T *at = first + 1; at < last; ++at) {
        T moved = *at;
        T *hole = at;
        for (; hole > first && less(moved, hole[-1]); --hole)
            *hole = hole[-1];
        *hole = moved;
    }
}

template <typename T, typename Less> const T &median(const T &a, const T &b, const T &c, Less less) {
    if (less(a, b))
        return less(b, c) ? b : less(a, c) ? c : a;
    return less(a, c) ? a : less(b, c) ? c : b;
}

// Median of three, the smaller part by recursion.
template <typename T, typename Less> void quick(T *first, T *last, Less less) {
    while (last - first > 16) {
        T pivot = median(*first, first[(last - first) / 2], last[-1], less);
        T *low = first, *high = last - 1;
        for (;;) {
            while (less(*low, pivot))
                ++low;
            while (less(pivot, *high))
                --high;
            if (low >= high)
                break;
            swap(*low++, *high--);
        }
        T *cut = high + 1;
        if (cut - first < last - cut) {
            quick(first, cut, less);
            first = cut;
        } else {
            quick(cut, last, less);
            last = cut;
        }
    }
    insertion(first, last, less);
}

template <typename T, typename Less> void sift(T *heap, usize at, usize size, Less less) {
    T moved = heap[at];
    for (usize child; (child = 2 * at + 1) < size; at = child) {
        if (child + 1 < size && less(heap[child], heap[child + 1]))
            ++child;
        if (!less(moved, heap[child]))
            break;
        heap[at] = heap[child];
    }
    heap[at] = moved;
}

template <typename T, typename Less> void heap(T *first, T *last, Less less) {
    usize size = static_cast<usize>(last - first);
    for (usize i = size / 2; i-- > 0;)
        sift(first, i, size, less);
    while (size > 1) {
        swap(first[0], first[--size]);
        sift(first, 0, size, less);
    }
}

// Stable; the buffer holds as many elements as the range.
template <typename T, typename Less> void merge(T *first, T *last, T *buffer, Less less) {
    usize size = static_cast<usize>(last - first);
    if (size <= 12) {
        insertion(first, last, less);
        return;
    }
    T *middle = first + size / 2;
    merge(first, middle, buffer, less);
    merge(middle, last, buffer, less);
    T *kept = buffer;
    for (T *at = first; at < middle; ++at)
        *kept++ = *at;
    T *a = buffer, *b = middle, *to = first;
    while (a < kept && b < last)
        *to++ = less(*b, *a) ? *b++ : *a++;
    while (a < kept)
        *to++ = *a++;
}

} // namespace sorting

#endif
