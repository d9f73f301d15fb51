// SPDX-License-Identifier: Apache-2.0
// paths.cpp - Dijkstra with an indexed heap of four children, breadth first, Floyd-Warshall.
#include "graph.hpp"

graph::graph(u32 num_nodes, const array<edge> &unsorted) : first(num_nodes + 1), edges(unsorted.size()) {
    for (usize i = 0; i < unsorted.size(); ++i)
        ++first[unsorted[i].from];
    u32 sum = 0;
    for (u32 node = 0; node <= num_nodes; ++node) {
        sum += first[node];
        first[node] = sum;
    }
    for (usize i = unsorted.size(); i-- > 0;)
        edges[--first[unsorted[i].from]] = unsorted[i];
}

namespace {

class queue {
  public:
    queue(u32 num_nodes, const array<u32> &key) : heap_(num_nodes), place_(num_nodes, unreached), key_(key) {}

    bool empty() const { return size_ == 0; }

    void push_or_raise(u32 node) {
        u32 at = place_[node];
        if (at == unreached)
            at = size_++;
        while (at > 0) {
            u32 parent = (at - 1) / 4;
            if (key_[heap_[parent]] <= key_[node])
                break;
            put(at, heap_[parent]);
            at = parent;
        }
        put(at, node);
    }

    u32 pop() {
        u32 top = heap_[0], moved = heap_[--size_], at = 0;
        place_[top] = unreached;
        if (size_ == 0)
            return top;
        for (;;) {
            u32 child = 4 * at + 1, best = at;
            u32 best_key = key_[moved];
            for (u32 end = child + 4 < size_ ? child + 4 : size_; child < end; ++child)
                if (u32 key = key_[heap_[child]]; key < best_key) {
                    best = child;
                    best_key = key;
                }
            if (best == at)
                break;
            put(at, heap_[best]);
            at = best;
        }
        put(at, moved);
        return top;
    }

  private:
    void put(u32 at, u32 node) {
        heap_[at] = node;
        place_[node] = at;
    }

    array<u32> heap_, place_;
    const array<u32> &key_;
    u32 size_ = 0;
};

} // namespace

void shortest_paths(const graph &g, u32 start, array<u32> &distance) {
    for (usize i = 0; i < distance.size(); ++i)
        distance[i] = unreached;
    distance[start] = 0;
    queue open(g.num_nodes(), distance);
    open.push_or_raise(start);
    while (!open.empty()) {
        u32 node = open.pop(), base = distance[node];
        for (u32 i = g.first[node]; i < g.first[node + 1]; ++i) {
            const edge &e = g.edges[i];
            if (base + e.weight < distance[e.to]) {
                distance[e.to] = base + e.weight;
                open.push_or_raise(e.to);
            }
        }
    }
}

void fewest_edges(const graph &g, u32 start, array<u32> &distance) {
    array<u32> order(g.num_nodes());
    usize head = 0, tail = 0;
    for (usize i = 0; i < distance.size(); ++i)
        distance[i] = unreached;
    distance[start] = 0;
    order[tail++] = start;
    while (head < tail) {
        u32 node = order[head++];
        for (u32 i = g.first[node]; i < g.first[node + 1]; ++i) {
            u32 to = g.edges[i].to;
            if (distance[to] == unreached) {
                distance[to] = distance[node] + 1;
                order[tail++] = to;
            }
        }
    }
}

void all_pairs(array<u32> &distance, u32 num_nodes) {
    for (u32 via = 0; via < num_nodes; ++via)
        for (u32 from = 0; from < num_nodes; ++from) {
            u32 first = distance[from * num_nodes + via];
            if (first == unreached)
                continue;
            const u32 *there = &distance[via * num_nodes];
            u32 *to = &distance[from * num_nodes];
            for (u32 i = 0; i < num_nodes; ++i)
                if (there[i] != unreached && first + there[i] < to[i])
                    to[i] = first + there[i];
        }
}
