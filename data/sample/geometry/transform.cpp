// SPDX-License-Identifier: Apache-2.0
// transform.cpp - rotations as quaternions, placements, polygons in space.
#include "geometry.hpp"

namespace geometry {
namespace {

constexpr Real pi = 3.14159265358979323846;

Real square(Real x) { return x * x; }

Real whole(Real x) {
    Real t = Real(static_cast<long long>(x));
    return t > x ? t - 1 : t;
}

// Bring an angle into -pi .. pi.
Real wrap(Real angle) { return angle - 2 * pi * whole(angle / (2 * pi) + 0.5); }

// Taylor series; exact enough because the angle is wrapped and halved twice.
Real sine_small(Real x) {
    Real term = x, sum = x;
    for (int k = 2; k < 18; k += 2) {
        term *= -square(x) / (k * (k + 1));
        sum += term;
    }
    return sum;
}

Real cosine_small(Real x) { return 1 - 2 * square(sine_small(x / 2)); }

Real sine(Real angle) {
    Real half = wrap(angle) / 2;
    return 2 * sine_small(half) * cosine_small(half);
}

Real cosine(Real angle) { return 1 - 2 * square(sine_small(wrap(angle) / 2)); }

// Quaternions

Rotation quaternion(Real w, const Vec &v) {
    Rotation r;
    r.w = w;
    r.v = v;
    return r;
}

Real dot(const Rotation &a, const Rotation &b) { return a.w * b.w + geometry::dot(a.v, b.v); }

Rotation operator+(const Rotation &a, const Rotation &b) {
    return quaternion(a.w + b.w, a.v + b.v);
}

Rotation operator*(const Rotation &a, Real f) { return quaternion(a.w * f, a.v * f); }

Rotation operator*(const Rotation &a, const Rotation &b) {
    return quaternion(a.w * b.w - geometry::dot(a.v, b.v),
                      b.v * a.w + a.v * b.w + cross(a.v, b.v));
}

Rotation conjugate(const Rotation &r) { return quaternion(r.w, -r.v); }

Rotation normalized(const Rotation &r) {
    Real l = square_root(dot(r, r));
    return l > close_by ? r * (1 / l) : Rotation();
}

// Some vector at a right angle to this one.
Vec any_normal(const Vec &v) {
    Vec other = magnitude(v.x) < 0.5 * length(v) ? Vec(1, 0, 0) : Vec(0, 1, 0);
    return unit(cross(v, other));
}

Vec corner(const Box &b, int i) {
    return Vec(i & 1 ? b.high.x : b.low.x, i & 2 ? b.high.y : b.low.y,
               i & 4 ? b.high.z : b.low.z);
}

// Polygons

Real height(const Vec &p, const Vec &normal, Real offset) {
    return geometry::dot(p, normal) - offset;
}

Vec between(const Vec &a, const Vec &b, Real t) { return a * (1 - t) + b * t; }

bool opposite(Real x, Real y) { return (x < 0 && y > 0) || (x > 0 && y < 0); }

Vec triangle_vector(const Vec &a, const Vec &b, const Vec &c) {
    return cross(b - a, c - a) * 0.5;
}

// Its length is the area, its direction the normal.
Vec area_vector(const Vec *p, Count n) {
    Vec sum;
    for (Count i = 2; i < n; i++)
        sum += triangle_vector(p[0], p[i - 1], p[i]);
    return sum;
}

} // namespace

Rotation rotation(const Vec &axis, Real angle) {
    return quaternion(cosine(angle / 2), unit(axis) * sine(angle / 2));
}

// The shortest turn that brings one direction to another.
Rotation rotation_between(const Vec &from, const Vec &to) {
    Vec a = unit(from), b = unit(to);
    Real w = 1 + dot(a, b);
    if (w < close_by)
        return quaternion(0, any_normal(a));
    return normalized(quaternion(w, cross(a, b)));
}

Rotation blend(const Rotation &a, const Rotation &b, Real t) {
    Real towards = dot(a, b) < 0 ? -t : t;
    return normalized(a * (1 - t) + b * towards);
}

Rotation combine(const Rotation &second, const Rotation &first) {
    return normalized(second * first);
}

Vec rotate(const Rotation &r, const Vec &v) {
    return (r * quaternion(0, v) * conjugate(r)).v;
}

Placement combine(const Placement &second, const Placement &first) {
    Placement p;
    p.turn = combine(second.turn, first.turn);
    p.scale = second.scale * first.scale;
    p.move = place(second, first.move);
    return p;
}

Placement inverse(const Placement &p) {
    Placement q;
    q.turn = conjugate(p.turn);
    q.scale = 1 / p.scale;
    q.move = rotate(q.turn, -p.move) * q.scale;
    return q;
}

Vec place(const Placement &p, const Vec &v) { return rotate(p.turn, v) * p.scale + p.move; }

// The box around the placed box.
Box place(const Placement &p, const Box &box) {
    Box result;
    for (int i = 0; i < 8 && !box.empty(); i++)
        result.add(place(p, corner(box, i)));
    return result;
}

Ray place(const Placement &p, const Ray &ray) {
    Ray r;
    r.origin = place(p, ray.origin);
    r.direction = rotate(p.turn, ray.direction) * p.scale;
    return r;
}

// The part of a convex polygon on the upper side of a plane.
Count clip(const Vec *p, Count n, const Vec &normal, Real offset, Vec *out, Count capacity) {
    Count kept = 0;
    for (Count i = 0; i < n; i++) {
        const Vec &a = p[i], &b = p[(i + 1) % n];
        Real ha = height(a, normal, offset), hb = height(b, normal, offset);
        if (ha >= 0 && kept < capacity)
            out[kept++] = a;
        if (opposite(ha, hb) && kept < capacity)
            out[kept++] = between(a, b, ha / (ha - hb));
    }
    return kept;
}

Real polygon_area(const Vec *p, Count n) { return length(area_vector(p, n)); }

Vec polygon_center(const Vec *p, Count n) {
    Vec direction = unit(area_vector(p, n)), sum;
    Real total = 0;
    for (Count i = 2; i < n; i++) {
        Real area = geometry::dot(triangle_vector(p[0], p[i - 1], p[i]), direction);
        sum += (p[0] + p[i - 1] + p[i]) * (area / 3);
        total += area;
    }
    return total > close_by ? sum / total : n ? p[0] : Vec();
}

} // namespace geometry
