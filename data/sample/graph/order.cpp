// SPDX-License-Identifier: Apache-2.0
// order.cpp - directed structure: topological order, cycles, strongly
// connected components, the longest path of a plan.
#include "graph.hpp"

namespace graph {
namespace {

Vector<unsigned> count_arriving(const Graph &g) {
    Vector<unsigned> arriving(g.node_count(), 0);
    for (const Edge &e : g.edges())
        arriving[e.to]++;
    return arriving;
}

Node lesser(Node x, Node y) { return x < y ? x : y; }

// Tarjan's algorithm. The numbering of the components is in reverse
// topological order: an edge never leads to a higher number.
class StrongComponents {
public:
    StrongComponents(const Graph &g, Vector<Node> &component)
        : graph_(g), component_(component), number_(g.node_count(), no_node),
          low_(g.node_count(), no_node) {
        component_.clear();
        component_.resize(g.node_count(), no_node);
    }

    Size run() {
        for (Node n = 0; n < graph_.node_count(); n++)
            if (!visited(n))
                visit(n);
        return found_;
    }

private:
    bool visited(Node n) const { return number_[n] != no_node; }
    bool finished(Node n) const { return component_[n] != no_node; }
    bool is_root(Node n) const { return low_[n] == number_[n]; }

    void enter(Node n) {
        number_[n] = low_[n] = visited_++;
        stack_.push(n);
    }

    void lower(Node n, Node value) { low_[n] = lesser(low_[n], value); }

    void follow(const Edge &e) {
        if (!visited(e.to)) {
            visit(e.to);
            lower(e.from, low_[e.to]);
        } else if (!finished(e.to)) {
            lower(e.from, number_[e.to]);
        }
    }

    void visit(Node n) {
        enter(n);
        for (const Edge &e : graph_.leaving(n))
            follow(e);
        if (is_root(n))
            close(n);
    }

    void close(Node root) {
        Node n;
        do {
            n = stack_.pop();
            component_[n] = found_;
        } while (n != root);
        found_++;
    }

    const Graph &graph_;
    Vector<Node> &component_;
    Vector<Node> number_;
    Vector<Node> low_;
    Vector<Node> stack_;
    Node visited_ = 0;
    Node found_ = 0;
};

// Depth first search for an edge back into the current path.
class CycleFinder {
public:
    explicit CycleFinder(const Graph &g) : graph_(g), state_(g.node_count(), fresh) {}

    Vector<Node> run() {
        for (Node n = 0; n < graph_.node_count() && cycle_.empty(); n++)
            if (state_[n] == fresh)
                visit(n);
        return cycle_;
    }

private:
    enum State : unsigned char { fresh, on_path, left };

    void visit(Node n) {
        state_[n] = on_path;
        path_.push(n);
        for (const Edge &e : graph_.leaving(n)) {
            if (!cycle_.empty())
                return;
            if (state_[e.to] == on_path)
                keep_from(e.to);
            else if (state_[e.to] == fresh)
                visit(e.to);
        }
        path_.pop();
        state_[n] = left;
    }

    void keep_from(Node first) {
        Size i = path_.size();
        while (path_[i - 1] != first)
            i--;
        for (i--; i < path_.size(); i++)
            cycle_.push(path_[i]);
    }

    const Graph &graph_;
    Vector<State> state_;
    Vector<Node> path_;
    Vector<Node> cycle_;
};

void trace_back(const Vector<Node> &before, Node last, Vector<Node> &path) {
    path.clear();
    for (; last != no_node; last = before[last])
        path.push(last);
    path.reverse();
}

} // namespace

// Kahn: of the nodes that are ready, the smallest comes first.
bool topological_order(const Graph &g, Vector<Node> &order) {
    Vector<unsigned> missing = count_arriving(g);
    PriorityQueue<Node> ready;
    order.clear();
    for (Node n = 0; n < g.node_count(); n++)
        if (missing[n] == 0)
            ready.push(n);
    while (!ready.empty()) {
        order.push(ready.pop());
        for (const Edge &e : g.leaving(order.back()))
            if (--missing[e.to] == 0)
                ready.push(e.to);
    }
    return order.size() == g.node_count();
}

bool has_cycle(const Graph &g) {
    Vector<Node> order;
    return !topological_order(g, order);
}

Vector<Node> find_cycle(const Graph &g) { return CycleFinder(g).run(); }

Size strong_components(const Graph &g, Vector<Node> &component) {
    return StrongComponents(g, component).run();
}

// The longest path of a graph without cycles.
bool critical_path(const Graph &g, Vector<Node> &path, Weight &length) {
    Vector<Node> order, before(g.node_count(), no_node);
    Vector<Weight> finish(g.node_count(), 0);
    Node last = 0;
    if (!topological_order(g, order) || order.empty())
        return false;
    for (Node n : order) {
        if (finish[n] > finish[last])
            last = n;
        for (const Edge &e : g.leaving(n)) {
            if (finish[n] + e.weight <= finish[e.to])
                continue;
            finish[e.to] = finish[n] + e.weight;
            before[e.to] = n;
        }
    }
    trace_back(before, last, path);
    length = finish[last];
    return true;
}

Size reachable_count(const Graph &g, Node start) {
    Vector<bool> seen(g.node_count(), false);
    Vector<Node> stack;
    Size count = 1;
    seen[start] = true;
    stack.push(start);
    while (!stack.empty()) {
        for (const Edge &e : g.leaving(stack.pop())) {
            if (seen[e.to])
                continue;
            seen[e.to] = true;
            stack.push(e.to);
            count++;
        }
    }
    return count;
}

// One node per strongly connected component.
Graph condensed(const Graph &g) {
    Vector<Node> component;
    Graph result(strong_components(g, component));
    for (const Edge &e : g.edges())
        if (component[e.from] != component[e.to])
            result.connect(component[e.from], component[e.to], e.weight);
    return result;
}

Graph reversed(const Graph &g) {
    Graph result(g.node_count());
    for (const Edge &e : g.edges())
        result.connect(e.to, e.from, e.weight);
    return result;
}

} // namespace graph
