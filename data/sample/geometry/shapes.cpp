// SPDX-License-Identifier: Apache-2.0
// shapes.cpp - sphere, triangle and block behind one virtual interface.
#include "geometry.hpp"

namespace geometry {
namespace {

constexpr Real pi = 3.14159265358979323846;

Real clamp(Real x, Real low, Real high) { return lesser(greater(x, low), high); }

Vec clamp(const Vec &p, const Box &b) { return upper(b.low, lower(p, b.high)); }

Real square(Real x) { return x * x; }

// Keep the hit if it is in front of the origin and nearer than the last one.
bool record(const Ray &ray, Real t, const Vec &normal, Hit &nearest) {
    if (t <= close_by || t >= nearest.t)
        return false;
    nearest.t = t;
    nearest.point = ray.at(t);
    nearest.normal = dot(normal, ray.direction) > 0 ? -normal : normal;
    return true;
}

Vec nearest_on_segment(const Vec &p, const Vec &a, const Vec &b) {
    Vec along = b - a;
    Real squared = length_squared(along);
    if (squared < square(close_by))
        return a;
    return a + along * clamp(dot(p - a, along) / squared, 0, 1);
}

Real distance_to_segment(const Vec &p, const Vec &a, const Vec &b) {
    return distance(p, nearest_on_segment(p, a, b));
}

// The part of a ray between two parallel planes.
struct Span {
    Real enter = -far_away;
    Real leave = far_away;
    int enter_axis = 0;
    int leave_axis = 0;

    bool empty() const { return enter > leave; }

    void cut(Real origin, Real direction, Real low, Real high, int axis) {
        if (magnitude(direction) < close_by) {
            if (origin < low || origin > high)
                leave = -far_away;
            return;
        }
        Real t0 = (low - origin) / direction, t1 = (high - origin) / direction;
        begin_at(lesser(t0, t1), axis);
        end_at(greater(t0, t1), axis);
    }

private:
    void begin_at(Real t, int axis) {
        if (t > enter) {
            enter = t;
            enter_axis = axis;
        }
    }
    void end_at(Real t, int axis) {
        if (t < leave) {
            leave = t;
            leave_axis = axis;
        }
    }
};

Span through(const Box &box, const Ray &ray) {
    Span s;
    for (int axis = 0; axis < 3; axis++)
        s.cut(ray.origin[axis], ray.direction[axis], box.low[axis], box.high[axis], axis);
    return s;
}

Vec axis_vector(int axis) { return Vec(axis == 0, axis == 1, axis == 2); }

// Is p to the left of the edge a-b, seen against the normal?
bool left_of(const Vec &p, const Vec &a, const Vec &b, const Vec &normal) {
    return dot(cross(b - a, p - a), normal) >= 0;
}

} // namespace

// Sphere

Box Sphere::bounds() const {
    Vec r(radius_, radius_, radius_);
    return Box(center_ - r, center_ + r);
}

bool Sphere::hit(const Ray &ray, Hit &nearest) const {
    Vec from = ray.origin - center_;
    Real a = length_squared(ray.direction), b = dot(from, ray.direction);
    Real d = square(b) - a * (length_squared(from) - square(radius_));
    if (d < 0 || a == 0)
        return false;
    Real near = (-b - square_root(d)) / a, far = (-b + square_root(d)) / a;
    Real t = near > close_by ? near : far;
    return record(ray, t, unit(ray.at(t) - center_), nearest);
}

Real Sphere::distance_to(const Vec &p) const {
    return greater(distance(p, center_) - radius_, 0);
}

Real Sphere::area() const { return 4 * pi * square(radius_); }

// Triangle

Vec Triangle::normal() const { return unit(cross(b_ - a_, c_ - a_)); }

bool Triangle::inside(const Vec &p) const {
    Vec n = normal();
    return left_of(p, a_, b_, n) && left_of(p, b_, c_, n) && left_of(p, c_, a_, n);
}

Box Triangle::bounds() const {
    Box b;
    b.add(a_);
    b.add(b_);
    b.add(c_);
    return b;
}

bool Triangle::hit(const Ray &ray, Hit &nearest) const {
    Vec n = normal();
    Real towards = dot(n, ray.direction);
    if (magnitude(towards) < close_by)
        return false;
    Real t = dot(n, a_ - ray.origin) / towards;
    return inside(ray.at(t)) && record(ray, t, n, nearest);
}

Real Triangle::distance_to(const Vec &p) const {
    if (inside(p) && area() > 0)
        return magnitude(dot(normal(), p - a_));
    Real d = distance_to_segment(p, a_, b_);
    d = lesser(d, distance_to_segment(p, b_, c_));
    return lesser(d, distance_to_segment(p, c_, a_));
}

Real Triangle::area() const { return length(cross(b_ - a_, c_ - a_)) / 2; }

// Block

Box Block::bounds() const { return box_; }

bool Block::hit(const Ray &ray, Hit &nearest) const {
    Span s = through(box_, ray);
    if (s.empty())
        return false;
    if (s.enter > close_by)
        return record(ray, s.enter, axis_vector(s.enter_axis), nearest);
    return record(ray, s.leave, axis_vector(s.leave_axis), nearest);
}

Real Block::distance_to(const Vec &p) const { return distance(p, clamp(p, box_)); }

Real Block::area() const { return box_.surface(); }

// Many shapes, one after the other

Hit hit_all(const Shape *const *shapes, Count n, const Ray &ray) {
    Hit nearest;
    for (Count i = 0; i < n; i++)
        if (shapes[i]->hit(ray, nearest))
            nearest.shape = int(i);
    return nearest;
}

const Shape *closest(const Shape *const *shapes, Count n, const Vec &p) {
    const Shape *best = nullptr;
    Real least = far_away;
    for (Count i = 0; i < n; i++) {
        Real d = shapes[i]->distance_to(p);
        if (d < least) {
            least = d;
            best = shapes[i];
        }
    }
    return best;
}

Real total_area(const Shape *const *shapes, Count n) {
    Real sum = 0;
    while (n--)
        sum += shapes[n]->area();
    return sum;
}

} // namespace geometry
