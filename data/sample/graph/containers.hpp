// SPDX-License-Identifier: Apache-2.0
// containers.hpp - vector, priority queue and ring buffer for plain data.
#ifndef GRAPH_CONTAINERS_HPP
#define GRAPH_CONTAINERS_HPP

extern "C" void *malloc(__SIZE_TYPE__ size);
extern "C" void free(void *p);

namespace graph {

using Size = __SIZE_TYPE__;

template <class T> void exchange(T &x, T &y) {
    T t = x;
    x = y;
    y = t;
}

// Elements must be plain data: they are copied byte by byte.
template <class T> class Vector {
public:
    Vector() = default;
    explicit Vector(Size n, T value = T()) { resize(n, value); }
    Vector(const Vector &o) { append(o); }
    Vector &operator=(const Vector &o) {
        if (this != &o) {
            size_ = 0;
            append(o);
        }
        return *this;
    }
    ~Vector() { free(data_); }

    Size size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T *begin() { return data_; }
    T *end() { return data_ + size_; }
    const T *begin() const { return data_; }
    const T *end() const { return data_ + size_; }
    T &operator[](Size i) { return data_[i]; }
    const T &operator[](Size i) const { return data_[i]; }
    T &back() { return data_[size_ - 1]; }

    void push(T x) {
        if (size_ == capacity_)
            reserve(capacity_ ? 2 * capacity_ : 8);
        data_[size_++] = x;
    }
    T pop() { return data_[--size_]; }
    void clear() { size_ = 0; }
    void resize(Size n, T value) {
        reserve(n);
        while (size_ < n)
            data_[size_++] = value;
        size_ = n;
    }
    void append(const Vector &o) {
        reserve(size_ + o.size_);
        for (const T &x : o)
            push(x);
    }
    void reserve(Size n) {
        if (n <= capacity_)
            return;
        T *fresh = static_cast<T *>(malloc(n * sizeof(T)));
        if (!fresh)
            __builtin_trap();
        if (size_)
            __builtin_memcpy(fresh, data_, size_ * sizeof(T));
        free(data_);
        data_ = fresh;
        capacity_ = n;
    }
    void reverse() {
        for (Size i = 0; i < size_ / 2; i++)
            exchange(data_[i], data_[size_ - 1 - i]);
    }

private:
    T *data_ = nullptr;
    Size size_ = 0;
    Size capacity_ = 0;
};

struct Less {
    template <class T> bool operator()(const T &x, const T &y) const { return x < y; }
};

// A binary heap; the smallest element is at the top.
template <class T, class Order = Less> class PriorityQueue {
public:
    bool empty() const { return heap_.empty(); }
    const T &top() const { return heap_[0]; }

    void push(T x) {
        heap_.push(x);
        Size i = heap_.size() - 1;
        for (; i > 0 && less(i, parent(i)); i = parent(i))
            exchange(heap_[i], heap_[parent(i)]);
    }
    T pop() {
        exchange(heap_[0], heap_.back());
        T x = heap_.pop();
        sift_down(0);
        return x;
    }

private:
    static Size parent(Size i) { return (i - 1) / 2; }
    bool less(Size i, Size j) const { return Order()(heap_[i], heap_[j]); }
    Size smaller_child(Size i) const {
        Size c = 2 * i + 1;
        return c + 1 < heap_.size() && less(c + 1, c) ? c + 1 : c;
    }
    void sift_down(Size i) {
        while (2 * i + 1 < heap_.size()) {
            Size c = smaller_child(i);
            if (!less(c, i))
                return;
            exchange(heap_[i], heap_[c]);
            i = c;
        }
    }
    Vector<T> heap_;
};

// First in, first out; the capacity is a power of two.
template <class T> class Queue {
public:
    Queue() : ring_(16) {}
    bool empty() const { return head_ == tail_; }
    void push(T x) {
        if (tail_ - head_ == ring_.size())
            grow();
        slot(tail_++) = x;
    }
    T pop() { return slot(head_++); }

private:
    T &slot(Size i) { return ring_[i & (ring_.size() - 1)]; }
    void grow() {
        Vector<T> bigger(2 * ring_.size());
        for (Size i = head_; i != tail_; i++)
            bigger[i - head_] = slot(i);
        tail_ -= head_;
        head_ = 0;
        ring_ = bigger;
    }
    Vector<T> ring_;
    Size head_ = 0;
    Size tail_ = 0;
};

// Stable merge sort.
template <class T, class Order> void merge_sort(T *a, T *scratch, Size n, Order order) {
    Size half = n / 2, i = 0, j = half;
    if (n < 2)
        return;
    merge_sort(a, scratch, half, order);
    merge_sort(a + half, scratch, n - half, order);
    for (Size k = 0; k < n; k++)
        scratch[k] = i < half && (j == n || !order(a[j], a[i])) ? a[i++] : a[j++];
    for (Size k = 0; k < n; k++)
        a[k] = scratch[k];
}

template <class T, class Order> void sort(Vector<T> &v, Order order) {
    Vector<T> scratch(v.size());
    merge_sort(v.begin(), scratch.begin(), v.size(), order);
}

} // namespace graph

#endif
