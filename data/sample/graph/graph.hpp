// SPDX-License-Identifier: Apache-2.0
// graph.hpp - a directed graph with weighted edges and what can be asked of it.
#ifndef GRAPH_HPP
#define GRAPH_HPP

#include "containers.hpp"

namespace graph {

using Node = unsigned;
using Weight = long;

constexpr Node no_node = ~0u;
constexpr Weight unreachable = __LONG_MAX__;

struct Edge {
    Node from;
    Node to;
    Weight weight;
};

// Edges are kept in one array; each node has a chain of the edges leaving it.
class Graph {
public:
    explicit Graph(Size nodes) : first_(nodes, no_edge) {}

    Size node_count() const { return first_.size(); }
    Size edge_count() const { return edges_.size(); }
    const Edge &edge(Size i) const { return edges_[i]; }
    const Vector<Edge> &edges() const { return edges_; }

    void connect(Node from, Node to, Weight weight) {
        next_.push(first_[from]);
        first_[from] = static_cast<unsigned>(edges_.size());
        edges_.push(Edge{from, to, weight});
    }
    void connect_both(Node x, Node y, Weight weight) {
        connect(x, y, weight);
        connect(y, x, weight);
    }

    class Iterator {
    public:
        Iterator(const Graph &g, unsigned at) : graph_(&g), at_(at) {}
        const Edge &operator*() const { return graph_->edges_[at_]; }
        Iterator &operator++() {
            at_ = graph_->next_[at_];
            return *this;
        }
        bool operator!=(const Iterator &o) const { return at_ != o.at_; }

    private:
        const Graph *graph_;
        unsigned at_;
    };
    struct Leaving {
        Iterator first, last;
        Iterator begin() const { return first; }
        Iterator end() const { return last; }
    };
    Leaving leaving(Node n) const {
        return Leaving{Iterator(*this, first_[n]), Iterator(*this, no_edge)};
    }

private:
    static constexpr unsigned no_edge = ~0u;
    Vector<Edge> edges_;
    Vector<unsigned> next_;
    Vector<unsigned> first_;
};

// paths.cpp
struct Paths {
    Vector<Weight> distance;
    Vector<Node> before;
};
Paths shortest_paths(const Graph &g, Node start);               // weights >= 0
bool shortest_paths_any(const Graph &g, Node start, Paths &p);  // false: negative cycle
Paths fewest_edges(const Graph &g, Node start);
Vector<Node> path_to(const Paths &p, Node target);
Vector<Node> shortest_path(const Graph &g, Node from, Node to);
Weight eccentricity(const Graph &g, Node start);
Weight widest_path(const Graph &g, Node from, Node to);

// spanning.cpp
Weight minimum_forest(const Graph &g, Vector<Edge> &chosen);
Weight minimum_tree_from(const Graph &g, Node start, Vector<Edge> &chosen);
Size components(const Graph &g, Vector<Node> &representative);
bool connected(const Graph &g, Node x, Node y);
Size largest_component(const Graph &g);
bool bipartite(const Graph &g, Vector<unsigned char> &side);

// order.cpp
bool topological_order(const Graph &g, Vector<Node> &order);
bool has_cycle(const Graph &g);
Vector<Node> find_cycle(const Graph &g);
Size strong_components(const Graph &g, Vector<Node> &component);
bool critical_path(const Graph &g, Vector<Node> &path, Weight &length);
Size reachable_count(const Graph &g, Node start);
Graph condensed(const Graph &g);
Graph reversed(const Graph &g);

} // namespace graph

#endif
