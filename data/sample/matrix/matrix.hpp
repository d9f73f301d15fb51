// SPDX-License-Identifier: Apache-2.0
// matrix.hpp - fixed-size and heap-allocated matrices, strided iterators and
// the few algorithms that work on them.
#ifndef MATRIX_HPP
#define MATRIX_HPP

extern "C" void *malloc(__SIZE_TYPE__ size);
extern "C" void free(void *p);

namespace matrix {

using Size = __SIZE_TYPE__;
using Offset = __PTRDIFF_TYPE__;

template <class T> T absolute(T x) { return x < T(0) ? -x : x; }

template <class T> void exchange(T &x, T &y) {
    T t = x;
    x = y;
    y = t;
}

// Walks over every `step`-th element: a row, a column or a diagonal.
template <class T> class Strided {
public:
    Strided(T *p, Offset step) : p_(p), step_(step) {}
    T &operator*() const { return *p_; }
    T &operator[](Size i) const { return p_[Offset(i) * step_]; }
    Strided &operator++() {
        p_ += step_;
        return *this;
    }
    Strided operator+(Size n) const { return Strided(p_ + Offset(n) * step_, step_); }
    bool operator!=(const Strided &o) const { return p_ != o.p_; }

private:
    T *p_;
    Offset step_;
};

template <class T> class Line {
public:
    Line(T *p, Size n, Offset step) : first_(p, step), n_(n) {}
    Line(Strided<T> first, Size n) : first_(first), n_(n) {}
    Strided<T> begin() const { return first_; }
    Strided<T> end() const { return first_ + n_; }
    Size size() const { return n_; }
    Line part(Size from, Size to) const { return Line(first_ + from, to - from); }
    T &operator[](Size i) const { return first_[i]; }

private:
    Strided<T> first_;
    Size n_;
};

template <class T> T dot(const Line<T> &x, const Line<T> &y) {
    T sum = T(0);
    auto q = y.begin();
    for (auto p = x.begin(); p != x.end(); ++p, ++q)
        sum = sum + *p * *q;
    return sum;
}

// y += factor * x
template <class T> void add_scaled(const Line<T> &y, T factor, const Line<T> &x) {
    auto p = x.begin();
    for (T &v : y) {
        v = v + factor * *p;
        ++p;
    }
}

template <class T> void swap_lines(const Line<T> &x, const Line<T> &y) {
    auto q = y.begin();
    for (T &v : x) {
        exchange(v, *q);
        ++q;
    }
}

template <class T> void scale(const Line<T> &x, T factor) {
    for (T &v : x)
        v = v * factor;
}

template <class T> void fill(const Line<T> &x, T value) {
    for (T &v : x)
        v = value;
}

// A matrix whose size is part of the type.
template <class T, Size R, Size C> class Fixed {
public:
    Fixed() { fill(all(), T(0)); }

    static Fixed diagonal(T value) {
        Fixed m;
        fill(Line<T>(m.cell_, R < C ? R : C, Offset(C) + 1), value);
        return m;
    }

    T &operator()(Size r, Size c) { return cell_[r * C + c]; }
    const T &operator()(Size r, Size c) const { return cell_[r * C + c]; }

    Line<T> all() { return Line<T>(cell_, R * C, 1); }
    Line<const T> all() const { return Line<const T>(cell_, R * C, 1); }
    Line<const T> row(Size r) const { return Line<const T>(cell_ + r * C, C, 1); }
    Line<const T> column(Size c) const { return Line<const T>(cell_ + c, R, Offset(C)); }

    Fixed &operator+=(const Fixed &o) {
        for (Size i = 0; i < R * C; i++)
            cell_[i] = cell_[i] + o.cell_[i];
        return *this;
    }
    Fixed &operator*=(T factor) {
        scale(all(), factor);
        return *this;
    }
    friend Fixed operator+(Fixed x, const Fixed &y) { return x += y; }
    friend Fixed operator*(Fixed x, T factor) { return x *= factor; }

    Fixed<T, C, R> transposed() const {
        Fixed<T, C, R> t;
        for (Size r = 0; r < R; r++)
            for (Size c = 0; c < C; c++)
                t(c, r) = (*this)(r, c);
        return t;
    }

    Fixed<T, R - 1, C - 1> without(Size row, Size column) const {
        Fixed<T, R - 1, C - 1> m;
        for (Size r = 0; r + 1 < R; r++)
            for (Size c = 0; c + 1 < C; c++)
                m(r, c) = (*this)(r + (r >= row), c + (c >= column));
        return m;
    }

private:
    T cell_[R * C];
};

template <class T, Size R, Size K, Size C>
Fixed<T, R, C> operator*(const Fixed<T, R, K> &x, const Fixed<T, K, C> &y) {
    Fixed<T, R, C> product;
    for (Size r = 0; r < R; r++)
        for (Size c = 0; c < C; c++)
            for (Size k = 0; k < K; k++)
                product(r, c) = product(r, c) + x(r, k) * y(k, c);
    return product;
}

// A matrix on the heap. When there is no memory it is empty.
template <class T> class Dense {
public:
    Dense() = default;
    Dense(Size rows, Size columns) { allocate(rows, columns); }
    Dense(const Dense &o) {
        allocate(o.rows_, o.columns_);
        copy_from(o);
    }
    Dense(Dense &&o) { swap(o); }
    Dense &operator=(Dense o) {
        swap(o);
        return *this;
    }
    ~Dense() { free(cell_); }

    static Dense identity(Size n) {
        Dense m(n, n);
        fill(m.diagonal(), T(1));
        return m;
    }

    Size rows() const { return rows_; }
    Size columns() const { return columns_; }
    bool empty() const { return rows_ == 0; }
    bool square() const { return rows_ == columns_; }
    T &operator()(Size r, Size c) { return cell_[r * columns_ + c]; }
    const T &operator()(Size r, Size c) const { return cell_[r * columns_ + c]; }

    // Lines give access to the cells even of a constant matrix: views, not values.
    Line<T> row(Size r) const { return Line<T>(cell_ + r * columns_, columns_, 1); }
    Line<T> column(Size c) const { return Line<T>(cell_ + c, rows_, Offset(columns_)); }
    Line<T> all() const { return Line<T>(cell_, rows_ * columns_, 1); }
    Line<T> diagonal() const {
        return Line<T>(cell_, rows_ < columns_ ? rows_ : columns_, Offset(columns_) + 1);
    }
    // The part of row r from column c on.
    Line<T> tail(Size r, Size c) const {
        return Line<T>(cell_ + r * columns_ + c, columns_ - c, 1);
    }

    void swap(Dense &o) {
        exchange(cell_, o.cell_);
        exchange(rows_, o.rows_);
        exchange(columns_, o.columns_);
    }

private:
    void allocate(Size rows, Size columns) {
        cell_ = static_cast<T *>(malloc(rows * columns * sizeof(T)));
        if (cell_) {
            rows_ = rows;
            columns_ = columns;
            fill(all(), T(0));
        }
    }
    void copy_from(const Dense &o) {
        for (Size i = 0; i < rows_ * columns_; i++)
            cell_[i] = o.cell_[i];
    }

    T *cell_ = nullptr;
    Size rows_ = 0;
    Size columns_ = 0;
};

using Matrix = Dense<double>;
using Matrix2 = Fixed<double, 2, 2>;
using Matrix3 = Fixed<double, 3, 3>;
using Matrix4 = Fixed<double, 4, 4>;

// algebra.cpp
double determinant(const Matrix3 &m);
double determinant(const Matrix4 &m);
bool invert(const Matrix3 &m, Matrix3 &result);
bool invert(const Matrix4 &m, Matrix4 &result);
Matrix3 power(const Matrix3 &m, unsigned n);
unsigned long fibonacci(unsigned long n, unsigned modulus);
unsigned long count_walks(const Fixed<unsigned, 4, 4> &edges, unsigned from, unsigned to,
                          unsigned length, unsigned modulus);
void characteristic(const Matrix3 &m, double coefficients[4]);
double gram(const Fixed<double, 4, 2> &points, Matrix2 &result);

// lu.cpp
bool solve(const Matrix &a, const Matrix &b, Matrix &x);
bool inverse(const Matrix &a, Matrix &result);
double determinant(const Matrix &a);
Size rank(const Matrix &a);
bool solve_positive(const Matrix &a, const Matrix &b, Matrix &x);
bool least_squares(const Matrix &a, const Matrix &b, Matrix &x);

// series.cpp
void center_columns(Matrix &m);
void standardize_columns(Matrix &m);
Matrix covariance(const Matrix &m);
Matrix correlation(const Matrix &m);
double row_median(const Matrix &m, Size row);
double column_median(const Matrix &m, Size column);
void sort_rows_by(Matrix &m, Size column);
void running_sums(Matrix &m);
Matrix smooth(const Matrix &m, Size radius);
double trace(const Matrix &m);
double largest(const Matrix &m);

} // namespace matrix

#endif
