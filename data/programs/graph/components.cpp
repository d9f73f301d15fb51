// SPDX-License-Identifier: Apache-2.0
// components.cpp - Kruskal's spanning tree over a radix sort, Tarjan's strong components without recursion.
#include "graph.hpp"

namespace {

class forest {
  public:
    explicit forest(u32 size) : parent_(size), rank_(size) {
        for (u32 i = 0; i < size; ++i)
            parent_[i] = i;
    }
    u32 root(u32 node) {
        while (parent_[node] != node) {
            parent_[node] = parent_[parent_[node]];
            node = parent_[node];
        }
        return node;
    }
    bool join(u32 a, u32 b) {
        a = root(a);
        b = root(b);
        if (a == b)
            return false;
        if (rank_[a] < rank_[b]) {
            parent_[a] = b;
        } else {
            parent_[b] = a;
            rank_[a] += rank_[a] == rank_[b];
        }
        return true;
    }

  private:
    array<u32> parent_, rank_;
};

void sort_by_weight(const array<edge> &edges, array<u32> &order, array<u32> &spare) {
    for (usize i = 0; i < order.size(); ++i)
        order[i] = static_cast<u32>(i);
    for (u32 shift = 0; shift < 16; shift += 8) {
        u32 starts[257] = {0};
        for (usize i = 0; i < order.size(); ++i)
            ++starts[(edges[order[i]].weight >> shift & 255) + 1];
        for (u32 i = 0; i < 256; ++i)
            starts[i + 1] += starts[i];
        for (usize i = 0; i < order.size(); ++i)
            spare[starts[edges[order[i]].weight >> shift & 255]++] = order[i];
        for (usize i = 0; i < order.size(); ++i)
            order[i] = spare[i];
    }
}

} // namespace

u64 spanning_tree(const graph &g, u32 *num_trees) {
    array<u32> order(g.edges.size()), spare(g.edges.size());
    forest trees(g.num_nodes());
    u64 total = 0;
    *num_trees = g.num_nodes();
    sort_by_weight(g.edges, order, spare);
    for (usize i = 0; i < order.size(); ++i) {
        const edge &e = g.edges[order[i]];
        if (trees.join(e.from, e.to)) {
            total += e.weight;
            --*num_trees;
        }
    }
    return total;
}

u32 strong_components(const graph &g, array<u32> &component) {
    u32 num_nodes = g.num_nodes(), visited = 0, found = 0;
    array<u32> index(num_nodes, unreached), low(num_nodes), next(num_nodes), path(num_nodes), open(num_nodes);
    usize path_size = 0, open_size = 0;
    for (u32 i = 0; i < num_nodes; ++i)
        component[i] = unreached;
    for (u32 start = 0; start < num_nodes; ++start) {
        if (index[start] != unreached)
            continue;
        path[path_size++] = start;
        while (path_size > 0) {
            u32 node = path[path_size - 1];
            if (index[node] == unreached) {
                index[node] = low[node] = visited++;
                next[node] = g.first[node];
                open[open_size++] = node;
            }
            bool descends = false;
            while (next[node] < g.first[node + 1] && !descends) {
                u32 to = g.edges[next[node]].to;
                if (index[to] == unreached) {
                    path[path_size++] = to;
                    descends = true;
                } else {
                    if (component[to] == unreached && low[to] < low[node])
                        low[node] = low[to];
                    ++next[node];
                }
            }
            if (descends)
                continue;
            --path_size;
            if (low[node] == index[node]) {
                u32 member;
                do {
                    member = open[--open_size];
                    component[member] = found;
                } while (member != node);
                ++found;
            }
        }
    }
    return found;
}
