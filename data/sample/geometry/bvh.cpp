// SPDX-License-Identifier: Apache-2.0
// bvh.cpp - a tree of boxes over shapes: split at the middle of the longest
// side, walked with a small stack.
#include "geometry.hpp"

namespace geometry {
namespace {

constexpr Count leaf_size = 2;
constexpr Count stack_size = 80;

bool is_leaf(const Tree::Node &n) { return n.count != 0; }
Count left(const Tree::Node &n) { return n.first; }
Count right(const Tree::Node &n) { return n.first + 1; }

Count greater(Count x, Count y) { return x > y ? x : y; }

void exchange(Count &x, Count &y) {
    Count t = x;
    x = y;
    y = t;
}

int longest_axis(const Vec &v) { return v.x >= v.y && v.x >= v.z ? 0 : v.y >= v.z ? 1 : 2; }

class Stack {
public:
    explicit Stack(Count root) { push(root); }
    bool empty() const { return size_ == 0; }
    Count pop() { return items_[--size_]; }
    void push(Count n) {
        if (size_ < stack_size)
            items_[size_++] = n;
    }
    void push_both(Count later, Count sooner) {
        push(later);
        push(sooner);
    }

private:
    Count items_[stack_size];
    Count size_ = 0;
};

// Where the ray enters the box; far_away if it misses it.
Real entry(const Box &box, const Ray &ray) {
    Real enter = 0, leave = far_away;
    for (int axis = 0; axis < 3; axis++) {
        Real d = ray.direction[axis], o = ray.origin[axis];
        if (magnitude(d) < close_by) {
            if (o < box.low[axis] || o > box.high[axis])
                return far_away;
            continue;
        }
        Real t0 = (box.low[axis] - o) / d, t1 = (box.high[axis] - o) / d;
        enter = geometry::greater(enter, lesser(t0, t1));
        leave = lesser(leave, geometry::greater(t0, t1));
    }
    return enter <= leave + close_by ? enter : far_away;
}

Real gap(const Box &box, const Vec &p) {
    return distance(p, upper(box.low, lower(p, box.high)));
}

Vec middle(const Shape *s) { return s->bounds().center(); }

Box bounds_of(const Shape *const *shapes, const Count *index, Count n) {
    Box b;
    for (Count i = 0; i < n; i++)
        b.add(shapes[index[i]]->bounds());
    return b;
}

Box middles_of(const Shape *const *shapes, const Count *index, Count n) {
    Box b;
    for (Count i = 0; i < n; i++)
        b.add(middle(shapes[index[i]]));
    return b;
}

// Bring those whose middle is below the limit to the front; how many?
Count partition(const Shape *const *shapes, Count *index, Count n, int axis, Real limit) {
    Count below = 0;
    for (Count i = 0; i < n; i++)
        if (middle(shapes[index[i]])[axis] < limit)
            exchange(index[i], index[below++]);
    return below;
}

Count depth_below(const Tree::Node *nodes, Count n) {
    if (is_leaf(nodes[n]))
        return 1;
    return 1 + greater(depth_below(nodes, left(nodes[n])), depth_below(nodes, right(nodes[n])));
}

} // namespace

Tree::Tree(const Shape *const *shapes, Count n, Node *nodes, Count *indices)
    : shapes_(shapes), nodes_(nodes), indices_(indices) {
    for (Count i = 0; i < n; i++)
        indices_[i] = i;
    if (n > 0) {
        used_ = 1;
        build(0, 0, n, 1);
    }
}

// Deep down the shapes are just halved, so that the stack is always enough.
void Tree::build(Count node, Count first, Count count, Count level) {
    Node &n = nodes_[node];
    Count *index = indices_ + first;
    n.box = bounds_of(shapes_, index, count);
    n.first = first;
    n.count = count;
    if (count <= leaf_size)
        return;
    Box middles = middles_of(shapes_, index, count);
    int axis = longest_axis(middles.size());
    Count below = partition(shapes_, index, count, axis, middles.center()[axis]);
    if (below == 0 || below == count || level > stack_size / 2)
        below = count / 2;
    n.first = used_;
    n.count = 0;
    used_ += 2;
    build(left(n), first, below, level + 1);
    build(right(n), first + below, count - below, level + 1);
}

Hit Tree::nearest_hit(const Ray &ray) const {
    Hit best;
    if (used_ == 0)
        return best;
    for (Stack open(0); !open.empty();) {
        const Node &n = nodes_[open.pop()];
        if (entry(n.box, ray) >= best.t)
            continue;
        if (!is_leaf(n)) {
            bool swapped = entry(nodes_[right(n)].box, ray) < entry(nodes_[left(n)].box, ray);
            open.push_both(swapped ? left(n) : right(n), swapped ? right(n) : left(n));
            continue;
        }
        for (Count i = 0; i < n.count; i++)
            if (shapes_[indices_[n.first + i]]->hit(ray, best))
                best.shape = int(indices_[n.first + i]);
    }
    return best;
}

// Is there anything between two points?
bool Tree::blocked(const Vec &from, const Vec &to) const {
    Hit h = nearest_hit(Ray{from, unit(to - from)});
    return h.any() && h.t < distance(from, to) - close_by;
}

Count Tree::overlapping(const Box &box, Count *out, Count capacity) const {
    Count found = 0;
    if (used_ == 0)
        return found;
    for (Stack open(0); !open.empty();) {
        const Node &n = nodes_[open.pop()];
        if (!n.box.overlaps(box))
            continue;
        if (!is_leaf(n))
            open.push_both(right(n), left(n));
        for (Count i = 0; i < n.count && found < capacity; i++)
            if (shapes_[indices_[n.first + i]]->bounds().overlaps(box))
                out[found++] = indices_[n.first + i];
    }
    return found;
}

const Shape *Tree::closest_to(const Vec &p, Real &least) const {
    const Shape *best = nullptr;
    least = far_away;
    if (used_ == 0)
        return best;
    for (Stack open(0); !open.empty();) {
        const Node &n = nodes_[open.pop()];
        if (gap(n.box, p) >= least)
            continue;
        if (!is_leaf(n)) {
            bool swapped = gap(nodes_[right(n)].box, p) < gap(nodes_[left(n)].box, p);
            open.push_both(swapped ? left(n) : right(n), swapped ? right(n) : left(n));
            continue;
        }
        for (Count i = 0; i < n.count; i++) {
            const Shape *s = shapes_[indices_[n.first + i]];
            Real d = s->distance_to(p);
            if (d < least) {
                least = d;
                best = s;
            }
        }
    }
    return best;
}

Count Tree::depth() const { return used_ ? depth_below(nodes_, 0) : 0; }

// The expected work for a ray: every node counts with its share of surface.
Real Tree::cost() const {
    Real sum = 0;
    for (Count i = 0; i < used_; i++)
        sum += nodes_[i].box.surface() * (is_leaf(nodes_[i]) ? Real(nodes_[i].count) : 1);
    return used_ && nodes_[0].box.surface() > 0 ? sum / nodes_[0].box.surface() : 0;
}

} // namespace geometry
