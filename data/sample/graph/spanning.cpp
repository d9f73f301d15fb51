// SPDX-License-Identifier: Apache-2.0
// spanning.cpp - edges taken as undirected: spanning forests (Kruskal, Prim),
// components by union-find, two-colouring.
#include "graph.hpp"

namespace graph {
namespace {

class UnionFind {
public:
    explicit UnionFind(Size n) : parent_(n), size_(n, 1), sets_(n) {
        for (Node i = 0; i < n; i++)
            parent_[i] = i;
    }

    Node find(Node n) {
        while (!is_root(n)) {
            parent_[n] = grandparent(n);
            n = parent_[n];
        }
        return n;
    }

    bool same(Node x, Node y) { return find(x) == find(y); }

    bool unite(Node x, Node y) {
        x = find(x);
        y = find(y);
        if (x == y)
            return false;
        if (size_[x] < size_[y])
            exchange(x, y);
        attach(y, x);
        return true;
    }

    Size size_of(Node n) { return size_[find(n)]; }
    Size sets() const { return sets_; }

private:
    bool is_root(Node n) const { return parent_[n] == n; }
    Node grandparent(Node n) const { return parent_[parent_[n]]; }
    void attach(Node child, Node root) {
        parent_[child] = root;
        size_[root] += size_[child];
        sets_--;
    }

    Vector<Node> parent_;
    Vector<Size> size_;
    Size sets_;
};

UnionFind unite_all(const Graph &g) {
    UnionFind sets(g.node_count());
    for (const Edge &e : g.edges())
        sets.unite(e.from, e.to);
    return sets;
}

struct Lighter {
    bool operator()(const Edge &x, const Edge &y) const { return x.weight < y.weight; }
};

Weight choose(Vector<Edge> &chosen, const Edge &e) {
    chosen.push(e);
    return e.weight;
}

void open_edges(const Graph &g, Node n, const Vector<bool> &done,
                PriorityQueue<Edge, Lighter> &open) {
    for (const Edge &e : g.leaving(n))
        if (!done[e.to])
            open.push(e);
}

constexpr unsigned char no_side = 2;

unsigned char other_side(unsigned char side) { return static_cast<unsigned char>(1 - side); }

// Give all nodes that hang together with n alternating sides.
bool paint(const Graph &g, Node n, Vector<unsigned char> &side) {
    Vector<Node> stack;
    side[n] = 0;
    stack.push(n);
    while (!stack.empty()) {
        n = stack.pop();
        for (const Edge &e : g.leaving(n)) {
            if (side[e.to] == side[n])
                return false;
            if (side[e.to] != no_side)
                continue;
            side[e.to] = other_side(side[n]);
            stack.push(e.to);
        }
    }
    return true;
}

} // namespace

// Kruskal: the lightest edges first, unless they would close a cycle.
Weight minimum_forest(const Graph &g, Vector<Edge> &chosen) {
    Vector<Edge> edges = g.edges();
    UnionFind sets(g.node_count());
    Weight total = 0;
    chosen.clear();
    sort(edges, Lighter());
    for (const Edge &e : edges)
        if (sets.unite(e.from, e.to))
            total += choose(chosen, e);
    return total;
}

// Prim: grow one tree; every edge must be there in both directions.
Weight minimum_tree_from(const Graph &g, Node start, Vector<Edge> &chosen) {
    PriorityQueue<Edge, Lighter> open;
    Vector<bool> done(g.node_count(), false);
    Weight total = 0;
    chosen.clear();
    done[start] = true;
    open_edges(g, start, done, open);
    while (!open.empty()) {
        Edge e = open.pop();
        if (done[e.to])
            continue;
        done[e.to] = true;
        total += choose(chosen, e);
        open_edges(g, e.to, done, open);
    }
    return total;
}

Size components(const Graph &g, Vector<Node> &representative) {
    UnionFind sets = unite_all(g);
    representative.clear();
    for (Node n = 0; n < g.node_count(); n++)
        representative.push(sets.find(n));
    return sets.sets();
}

bool connected(const Graph &g, Node x, Node y) { return unite_all(g).same(x, y); }

Size largest_component(const Graph &g) {
    UnionFind sets = unite_all(g);
    Size largest = 0;
    for (Node n = 0; n < g.node_count(); n++)
        if (sets.size_of(n) > largest)
            largest = sets.size_of(n);
    return largest;
}

// Every edge must be there in both directions.
bool bipartite(const Graph &g, Vector<unsigned char> &side) {
    side.clear();
    side.resize(g.node_count(), no_side);
    for (Node n = 0; n < g.node_count(); n++)
        if (side[n] == no_side && !paint(g, n, side))
            return false;
    return true;
}

} // namespace graph
