// SPDX-License-Identifier: Apache-2.0
// geometry.hpp - vectors, boxes, rays, rotations, shapes and a tree of boxes.
#ifndef GEOMETRY_HPP
#define GEOMETRY_HPP

namespace geometry {

using Real = double;
using Count = unsigned;

constexpr Real far_away = 1e30;
constexpr Real close_by = 1e-9;

inline Real lesser(Real x, Real y) { return x < y ? x : y; }
inline Real greater(Real x, Real y) { return x > y ? x : y; }
inline Real magnitude(Real x) { return x < 0 ? -x : x; }
inline Real square_root(Real x) { return x > 0 ? __builtin_sqrt(x) : 0; }

struct Vec {
    Real x = 0, y = 0, z = 0;

    Vec() = default;
    Vec(Real x_, Real y_, Real z_) : x(x_), y(y_), z(z_) {}

    Real operator[](int axis) const { return axis == 0 ? x : axis == 1 ? y : z; }

    Vec &operator+=(const Vec &o) { return *this = *this + o; }
    Vec operator-() const { return Vec(-x, -y, -z); }
    friend Vec operator+(const Vec &a, const Vec &b) {
        return Vec(a.x + b.x, a.y + b.y, a.z + b.z);
    }
    friend Vec operator-(const Vec &a, const Vec &b) { return a + -b; }
    friend Vec operator*(const Vec &a, Real f) { return Vec(a.x * f, a.y * f, a.z * f); }
    friend Vec operator/(const Vec &a, Real f) { return a * (1 / f); }
};

inline Real dot(const Vec &a, const Vec &b) { return a.x * b.x + a.y * b.y + a.z * b.z; }
inline Vec cross(const Vec &a, const Vec &b) {
    return Vec(a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x);
}
inline Real length_squared(const Vec &a) { return dot(a, a); }
inline Real length(const Vec &a) { return square_root(length_squared(a)); }
inline Real distance(const Vec &a, const Vec &b) { return length(a - b); }
inline Vec unit(const Vec &a) {
    Real l = length(a);
    return l > close_by ? a / l : Vec();
}
inline Vec lower(const Vec &a, const Vec &b) {
    return Vec(lesser(a.x, b.x), lesser(a.y, b.y), lesser(a.z, b.z));
}
inline Vec upper(const Vec &a, const Vec &b) {
    return Vec(greater(a.x, b.x), greater(a.y, b.y), greater(a.z, b.z));
}
inline Vec reflect(const Vec &v, const Vec &normal) { return v - normal * (2 * dot(v, normal)); }

struct Ray {
    Vec origin, direction;
    Vec at(Real t) const { return origin + direction * t; }
};

struct Hit {
    Real t = far_away;
    Vec point, normal;
    int shape = -1;
    bool any() const { return t < far_away; }
};

// An empty box has its low corner above its high corner.
struct Box {
    Vec low{far_away, far_away, far_away};
    Vec high{-far_away, -far_away, -far_away};

    Box() = default;
    Box(const Vec &l, const Vec &h) : low(l), high(h) {}
    void add(const Vec &p) { *this = Box(lower(low, p), upper(high, p)); }
    void add(const Box &b) { *this = Box(lower(low, b.low), upper(high, b.high)); }
    bool empty() const { return low.x > high.x; }
    Vec center() const { return (low + high) * 0.5; }
    Vec size() const { return high - low; }
    Real surface() const {
        Vec s = size();
        return empty() ? 0 : 2 * (s.x * s.y + s.y * s.z + s.z * s.x);
    }
    bool contains(const Vec &p) const { return overlaps(Box(p, p)); }
    bool overlaps(const Box &b) const {
        return low.x <= b.high.x && b.low.x <= high.x && low.y <= b.high.y &&
               b.low.y <= high.y && low.z <= b.high.z && b.low.z <= high.z;
    }
};

// shapes.cpp
class Shape {
public:
    virtual Box bounds() const = 0;
    virtual bool hit(const Ray &ray, Hit &nearest) const = 0; // only if nearer
    virtual Real distance_to(const Vec &p) const = 0;
    virtual Real area() const = 0;

protected:
    ~Shape() = default; // shapes are never deleted through the base
};

class Sphere final : public Shape {
public:
    Sphere(const Vec &center, Real radius) : center_(center), radius_(radius) {}
    Box bounds() const override;
    bool hit(const Ray &ray, Hit &nearest) const override;
    Real distance_to(const Vec &p) const override;
    Real area() const override;

private:
    Vec center_;
    Real radius_;
};

class Triangle final : public Shape {
public:
    Triangle(const Vec &a, const Vec &b, const Vec &c) : a_(a), b_(b), c_(c) {}
    Box bounds() const override;
    bool hit(const Ray &ray, Hit &nearest) const override;
    Real distance_to(const Vec &p) const override;
    Real area() const override;

private:
    Vec normal() const;
    bool inside(const Vec &p) const;
    Vec a_, b_, c_;
};

class Block final : public Shape {
public:
    explicit Block(const Box &box) : box_(box) {}
    Box bounds() const override;
    bool hit(const Ray &ray, Hit &nearest) const override;
    Real distance_to(const Vec &p) const override;
    Real area() const override;

private:
    Box box_;
};

Hit hit_all(const Shape *const *shapes, Count n, const Ray &ray);
const Shape *closest(const Shape *const *shapes, Count n, const Vec &p);
Real total_area(const Shape *const *shapes, Count n);

// bvh.cpp - the caller provides 2 * n nodes and n indices.
class Tree {
public:
    struct Node {
        Box box;
        Count first; // leaf: first index; inner node: left child, the right one follows
        Count count; // 0 for an inner node
    };
    Tree(const Shape *const *shapes, Count n, Node *nodes, Count *indices);
    Hit nearest_hit(const Ray &ray) const;
    bool blocked(const Vec &from, const Vec &to) const;
    Count overlapping(const Box &box, Count *out, Count capacity) const;
    const Shape *closest_to(const Vec &p, Real &distance) const;
    Count depth() const;
    Real cost() const;

private:
    void build(Count node, Count first, Count count, Count level);
    const Shape *const *shapes_;
    Node *nodes_;
    Count *indices_;
    Count used_ = 0;
};

// transform.cpp
struct Rotation { // a unit quaternion
    Real w = 1;
    Vec v;
};
struct Placement {
    Rotation turn;
    Vec move;
    Real scale = 1;
};

Rotation rotation(const Vec &axis, Real angle);
Rotation rotation_between(const Vec &from, const Vec &to);
Rotation blend(const Rotation &a, const Rotation &b, Real t);
Rotation combine(const Rotation &second, const Rotation &first);
Vec rotate(const Rotation &r, const Vec &v);
Placement combine(const Placement &second, const Placement &first);
Placement inverse(const Placement &p);
Vec place(const Placement &p, const Vec &v);
Box place(const Placement &p, const Box &box);
Ray place(const Placement &p, const Ray &ray);
Count clip(const Vec *polygon, Count n, const Vec &normal, Real offset, Vec *out, Count capacity);
Real polygon_area(const Vec *polygon, Count n);
Vec polygon_center(const Vec *polygon, Count n);

} // namespace geometry

#endif
