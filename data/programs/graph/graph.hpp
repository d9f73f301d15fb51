// SPDX-License-Identifier: Apache-2.0
// graph.hpp - directed graphs with weights, edges of a node in a row; arrays that grow.
#ifndef GRAPH_HPP
#define GRAPH_HPP

using u32 = unsigned int;
using u64 = unsigned long;
using usize = unsigned long;

extern "C" {
int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);
void abort(void);
}

template <typename T> class array {
  public:
    explicit array(usize size, T value = T()) : data_(static_cast<T *>(malloc(size * sizeof(T)))), size_(size) {
        if (!data_)
            abort();
        for (usize i = 0; i < size; ++i)
            data_[i] = value;
    }
    array(const array &) = delete;
    array &operator=(const array &) = delete;
    ~array() { free(data_); }
    T &operator[](usize i) { return data_[i]; }
    const T &operator[](usize i) const { return data_[i]; }
    usize size() const { return size_; }

  private:
    T *data_;
    usize size_;
};

struct edge {
    u32 from, to, weight;
};

struct graph {
    array<u32> first; // of each node, and one more
    array<edge> edges;

    graph(u32 num_nodes, const array<edge> &unsorted);
    u32 num_nodes() const { return static_cast<u32>(first.size() - 1); }
};

constexpr u32 unreached = ~0u;

// Distances from a node, `unreached` where there is no way.
void shortest_paths(const graph &g, u32 start, array<u32> &distance);
void fewest_edges(const graph &g, u32 start, array<u32> &distance);
void all_pairs(array<u32> &distance, u32 num_nodes);
u64 spanning_tree(const graph &g, u32 *num_trees);
u32 strong_components(const graph &g, array<u32> &component);

#endif
