// SPDX-License-Identifier: Apache-2.0
// lu.cpp - linear equations: LU with pivoting, Cholesky, rank, least squares.
#include "matrix.hpp"

namespace matrix {
namespace {

constexpr double tiny = 1e-12;

bool negligible(double x) { return absolute(x) < tiny; }

// Row of the largest element at or below (from, column).
Size pivot_row(const Matrix &m, Size from, Size column) {
    Size best = from;
    for (Size r = from + 1; r < m.rows(); r++)
        if (absolute(m(r, column)) > absolute(m(best, column)))
            best = r;
    return best;
}

void eliminate(Matrix &m, Size target, Size source, Size column) {
    double factor = m(target, column) / m(source, column);
    add_scaled(m.tail(target, column), -factor, m.tail(source, column));
    m(target, column) = factor; // the place of the zero keeps the factor
}

// P A = L U, both factors in one matrix; rows are exchanged in it and in
// `with`, so that the permutation need not be kept.
class Factors {
public:
    Factors(const Matrix &a, Matrix &with) : lu_(a) { factor(with); }

    bool singular() const { return singular_; }

    double determinant() const {
        double d = odd_ ? -1 : 1;
        for (double v : lu_.diagonal())
            d *= v;
        return d;
    }

    void solve_in_place(Matrix &x) const {
        for (Size r = 0; r < size(); r++)
            forward(x, r);
        for (Size r = size(); r-- > 0;)
            backward(x, r);
    }

private:
    Size size() const { return lu_.rows(); }

    void exchange_rows(Matrix &with, Size r, Size s) {
        if (r == s)
            return;
        swap_lines(lu_.row(r), lu_.row(s));
        swap_lines(with.row(r), with.row(s));
        odd_ = !odd_;
    }

    void factor(Matrix &with) {
        for (Size k = 0; k < size() && !singular_; k++) {
            exchange_rows(with, k, pivot_row(lu_, k, k));
            singular_ = negligible(lu_(k, k));
            for (Size r = k + 1; r < size() && !singular_; r++)
                eliminate(lu_, r, k, k);
        }
    }

    void forward(Matrix &x, Size r) const {
        for (Size k = 0; k < r; k++)
            add_scaled(x.row(r), -lu_(r, k), x.row(k));
    }

    void backward(Matrix &x, Size r) const {
        for (Size k = r + 1; k < size(); k++)
            add_scaled(x.row(r), -lu_(r, k), x.row(k));
        scale(x.row(r), 1 / lu_(r, r));
    }

    Matrix lu_;
    bool odd_ = false;
    bool singular_ = false;
};

double square_root(double x) { return __builtin_sqrt(x); }

// A = L Lt in the lower triangle; false if A is not positive definite.
bool cholesky(Matrix &m) {
    for (Size r = 0; r < m.rows(); r++) {
        for (Size c = 0; c <= r; c++) {
            double v = m(r, c) - dot(Line<double>(&m(r, 0), c, 1), Line<double>(&m(c, 0), c, 1));
            if (r != c)
                m(r, c) = v / m(c, c);
            else if (v < tiny)
                return false;
            else
                m(r, r) = square_root(v);
        }
    }
    return true;
}

void solve_lower(const Matrix &l, Matrix &x) {
    for (Size r = 0; r < l.rows(); r++) {
        for (Size k = 0; k < r; k++)
            add_scaled(x.row(r), -l(r, k), x.row(k));
        scale(x.row(r), 1 / l(r, r));
    }
}

void solve_lower_transposed(const Matrix &l, Matrix &x) {
    for (Size r = l.rows(); r-- > 0;) {
        for (Size k = r + 1; k < l.rows(); k++)
            add_scaled(x.row(r), -l(k, r), x.row(k));
        scale(x.row(r), 1 / l(r, r));
    }
}

// transpose(x) * y
Matrix transposed_product(const Matrix &x, const Matrix &y) {
    Matrix p(x.columns(), y.columns());
    for (Size r = 0; r < p.rows(); r++)
        for (Size c = 0; c < p.columns(); c++)
            p(r, c) = dot(x.column(r), y.column(c));
    return p;
}

bool compatible(const Matrix &a, const Matrix &b) {
    return !a.empty() && a.square() && a.rows() == b.rows();
}

} // namespace

bool solve(const Matrix &a, const Matrix &b, Matrix &x) {
    if (!compatible(a, b))
        return false;
    x = b;
    Factors f(a, x);
    if (f.singular())
        return false;
    f.solve_in_place(x);
    return true;
}

bool inverse(const Matrix &a, Matrix &result) {
    return solve(a, Matrix::identity(a.rows()), result);
}

double determinant(const Matrix &a) {
    Matrix none(a.rows(), 0);
    if (a.empty() || !a.square())
        return 0;
    Factors f(a, none);
    return f.singular() ? 0 : f.determinant();
}

Size rank(const Matrix &a) {
    Matrix m = a;
    Size found = 0;
    for (Size c = 0; c < m.columns() && found < m.rows(); c++) {
        swap_lines(m.row(found), m.row(pivot_row(m, found, c)));
        if (negligible(m(found, c)))
            continue;
        for (Size r = found + 1; r < m.rows(); r++)
            eliminate(m, r, found, c);
        found++;
    }
    return found;
}

// For symmetric positive definite matrices: half the work, no pivoting.
bool solve_positive(const Matrix &a, const Matrix &b, Matrix &x) {
    Matrix l = a;
    if (!compatible(a, b) || !cholesky(l))
        return false;
    x = b;
    solve_lower(l, x);
    solve_lower_transposed(l, x);
    return true;
}

bool least_squares(const Matrix &a, const Matrix &b, Matrix &x) {
    return a.rows() == b.rows() &&
           solve_positive(transposed_product(a, a), transposed_product(a, b), x);
}

} // namespace matrix
