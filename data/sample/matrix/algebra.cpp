// SPDX-License-Identifier: Apache-2.0
// algebra.cpp - fixed-size matrices over doubles and over integers modulo m:
// products, powers, determinants by minors, inverses by the adjugate.
#include "matrix.hpp"

namespace matrix {
namespace {

// An integer that remembers its modulus; a modulus of 0 is a plain constant.
class Residue {
public:
    Residue(unsigned long value = 0, unsigned long modulus = 0)
        : value_(modulus ? value % modulus : value), modulus_(modulus) {}
    unsigned long value() const { return value_; }
    friend Residue operator+(Residue x, Residue y) {
        return Residue(x.value_ + y.value_, common(x, y));
    }
    friend Residue operator*(Residue x, Residue y) {
        return Residue(x.value_ * y.value_, common(x, y));
    }

private:
    static unsigned long common(Residue x, Residue y) {
        return x.modulus_ ? x.modulus_ : y.modulus_;
    }
    unsigned long value_;
    unsigned long modulus_;
};

double sign(Size n) { return n % 2 ? -1.0 : 1.0; }

double minors(const Matrix2 &m) { return m(0, 0) * m(1, 1) - m(0, 1) * m(1, 0); }

template <Size N> double minors(const Fixed<double, N, N> &m);

template <Size N> double cofactor(const Fixed<double, N, N> &m, Size r, Size c) {
    return sign(r + c) * minors(m.without(r, c));
}

template <Size N> double minors(const Fixed<double, N, N> &m) {
    double sum = 0;
    for (Size c = 0; c < N; c++)
        sum += m(0, c) * sign(c) * minors(m.without(0, c));
    return sum;
}

template <Size N> Fixed<double, N, N> adjugate(const Fixed<double, N, N> &m) {
    Fixed<double, N, N> a;
    for (Size r = 0; r < N; r++)
        for (Size c = 0; c < N; c++)
            a(c, r) = cofactor(m, r, c);
    return a;
}

template <Size N> bool invert_any(const Fixed<double, N, N> &m, Fixed<double, N, N> &result) {
    double d = minors(m);
    if (absolute(d) < 1e-12)
        return false;
    result = adjugate(m) * (1 / d);
    return true;
}

template <class T, Size N>
Fixed<T, N, N> raise(Fixed<T, N, N> base, unsigned long n, const T &one) {
    auto result = Fixed<T, N, N>::diagonal(one);
    for (; n; n /= 2) {
        if (n % 2)
            result = result * base;
        base = base * base;
    }
    return result;
}

template <Size N> double trace_of(const Fixed<double, N, N> &m) {
    double sum = 0;
    for (Size i = 0; i < N; i++)
        sum += m(i, i);
    return sum;
}

template <class T, Size R, Size C> T norm_squared(const Fixed<T, R, C> &m) {
    T sum = T(0);
    for (const T &v : m.all())
        sum = sum + v * v;
    return sum;
}

} // namespace

double determinant(const Matrix3 &m) { return minors(m); }
double determinant(const Matrix4 &m) { return minors(m); }

bool invert(const Matrix3 &m, Matrix3 &result) { return invert_any(m, result); }
bool invert(const Matrix4 &m, Matrix4 &result) { return invert_any(m, result); }

Matrix3 power(const Matrix3 &m, unsigned n) { return raise(m, n, 1.0); }

unsigned long fibonacci(unsigned long n, unsigned modulus) {
    Residue one(1, modulus);
    Fixed<Residue, 2, 2> step;
    step(0, 0) = step(0, 1) = step(1, 0) = one;
    return raise(step, n, one)(0, 1).value();
}

// The number of walks of a length from one node to another, modulo m.
unsigned long count_walks(const Fixed<unsigned, 4, 4> &edges, unsigned from, unsigned to,
                          unsigned length, unsigned modulus) {
    Fixed<Residue, 4, 4> step;
    for (Size r = 0; r < 4; r++)
        for (Size c = 0; c < 4; c++)
            step(r, c) = Residue(edges(r, c), modulus);
    return raise(step, length, Residue(1, modulus))(from, to).value();
}

// det(x I - m) = c[3] x^3 + c[2] x^2 + c[1] x + c[0], by Faddeev and LeVerrier.
void characteristic(const Matrix3 &m, double c[4]) {
    Matrix3 step;
    c[3] = 1;
    for (Size k = 1; k <= 3; k++) {
        step = m * step + Matrix3::diagonal(c[4 - k]);
        c[3 - k] = -trace_of(m * step) / double(k);
    }
}

// The Gram matrix of the columns; returns how far it is from the unit matrix.
double gram(const Fixed<double, 4, 2> &points, Matrix2 &result) {
    result = points.transposed() * points;
    return norm_squared(result + Matrix2::diagonal(-1));
}

} // namespace matrix
