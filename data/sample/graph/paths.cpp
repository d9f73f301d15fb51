// SPDX-License-Identifier: Apache-2.0
// paths.cpp - shortest paths: Dijkstra, Bellman-Ford, breadth first, and the
// path whose narrowest edge is widest.
#include "graph.hpp"

namespace graph {
namespace {

struct Candidate {
    Weight distance;
    Node node;
    friend bool operator<(const Candidate &x, const Candidate &y) {
        return x.distance < y.distance;
    }
};

struct Widest {
    bool operator()(const Candidate &x, const Candidate &y) const { return y < x; }
};

Weight lesser(Weight x, Weight y) { return x < y ? x : y; }

bool reached(const Paths &p, Node n) { return p.distance[n] != unreachable; }

void settle(Paths &p, Node n, Weight distance, Node before) {
    p.distance[n] = distance;
    p.before[n] = before;
}

Paths paths_from(const Graph &g, Node start) {
    Paths p;
    p.distance.resize(g.node_count(), unreachable);
    p.before.resize(g.node_count(), no_node);
    settle(p, start, 0, no_node);
    return p;
}

// Is the way over this edge shorter? Then take it.
bool relax(Paths &p, const Edge &e) {
    if (!reached(p, e.from))
        return false;
    Weight distance = p.distance[e.from] + e.weight;
    if (distance >= p.distance[e.to])
        return false;
    settle(p, e.to, distance, e.from);
    return true;
}

bool relax_all(Paths &p, const Graph &g) {
    bool changed = false;
    for (const Edge &e : g.edges())
        changed |= relax(p, e);
    return changed;
}

// Dijkstra; stops early when the target is settled.
void search(const Graph &g, Paths &p, Node start, Node target) {
    PriorityQueue<Candidate> open;
    open.push(Candidate{0, start});
    while (!open.empty()) {
        Candidate c = open.pop();
        if (c.node == target)
            return;
        if (c.distance > p.distance[c.node])
            continue;
        for (const Edge &e : g.leaving(c.node))
            if (relax(p, e))
                open.push(Candidate{p.distance[e.to], e.to});
    }
}

} // namespace

Paths shortest_paths(const Graph &g, Node start) {
    Paths p = paths_from(g, start);
    search(g, p, start, no_node);
    return p;
}

bool shortest_paths_any(const Graph &g, Node start, Paths &p) {
    p = paths_from(g, start);
    for (Size round = 0; round < g.node_count(); round++)
        if (!relax_all(p, g))
            return true;
    return false;
}

Paths fewest_edges(const Graph &g, Node start) {
    Paths p = paths_from(g, start);
    Queue<Node> open;
    open.push(start);
    while (!open.empty()) {
        Node n = open.pop();
        for (const Edge &e : g.leaving(n)) {
            if (reached(p, e.to))
                continue;
            settle(p, e.to, p.distance[n] + 1, n);
            open.push(e.to);
        }
    }
    return p;
}

Vector<Node> path_to(const Paths &p, Node target) {
    Vector<Node> path;
    if (!reached(p, target))
        return path;
    for (Node n = target; n != no_node; n = p.before[n])
        path.push(n);
    path.reverse();
    return path;
}

Vector<Node> shortest_path(const Graph &g, Node from, Node to) {
    Paths p = paths_from(g, from);
    search(g, p, from, to);
    return path_to(p, to);
}

// The distance of the farthest node that can be reached.
Weight eccentricity(const Graph &g, Node start) {
    Paths p = shortest_paths(g, start);
    Weight farthest = 0;
    for (Node n = 0; n < g.node_count(); n++)
        if (reached(p, n) && p.distance[n] > farthest)
            farthest = p.distance[n];
    return farthest;
}

// The largest load that fits through some path; 0 if there is no path.
Weight widest_path(const Graph &g, Node from, Node to) {
    Vector<Weight> width(g.node_count(), 0);
    PriorityQueue<Candidate, Widest> open;
    width[from] = unreachable;
    open.push(Candidate{unreachable, from});
    while (!open.empty() && open.top().node != to) {
        Candidate c = open.pop();
        for (const Edge &e : g.leaving(c.node)) {
            Weight w = lesser(c.distance, e.weight);
            if (w > width[e.to]) {
                width[e.to] = w;
                open.push(Candidate{w, e.to});
            }
        }
    }
    return width[to];
}

} // namespace graph
