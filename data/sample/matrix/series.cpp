// SPDX-License-Identifier: Apache-2.0
// series.cpp - rows and columns as series of numbers: means, medians,
// covariance, sorting, running sums, smoothing.
#include "matrix.hpp"

namespace matrix {
namespace {

using Series = Line<double>;

double square(double x) { return x * x; }

Size lesser(Size x, Size y) { return x < y ? x : y; }

template <class Map> double sum_of(const Series &s, Map map) {
    double sum = 0;
    for (double v : s)
        sum += map(v);
    return sum;
}

template <class Map> void transform(const Series &s, Map map) {
    for (double &v : s)
        v = map(v);
}

template <class Less> double extreme(const Series &s, Less less) {
    double best = s[0];
    for (double v : s)
        if (less(best, v))
            best = v;
    return best;
}

double ratio(double x, double y) { return y == 0 ? 0 : x / y; }

double total(const Series &s) {
    return sum_of(s, [](double v) { return v; });
}

double mean(const Series &s) { return ratio(total(s), double(s.size())); }

double variance(const Series &s) {
    double m = mean(s);
    return ratio(sum_of(s, [m](double v) { return square(v - m); }), double(s.size()));
}

double deviation(const Series &s) { return __builtin_sqrt(variance(s)); }

void center(const Series &s) {
    double m = mean(s);
    transform(s, [m](double v) { return v - m; });
}

void standardize(const Series &s) {
    double d = deviation(s);
    center(s);
    transform(s, [d](double v) { return ratio(v, d); });
}

double co_moment(const Series &x, const Series &y) {
    return ratio(dot(x, y), double(x.size())) - mean(x) * mean(y);
}

void copy(const Series &from, const Series &to) {
    auto q = to.begin();
    for (double v : from) {
        *q = v;
        ++q;
    }
}

// Move the k-th smallest element to place k: quickselect with three parts.
void select(const Series &s, Size k) {
    Size low = 0, high = s.size();
    while (high - low > 1) {
        double pivot = s[low + (high - low) / 2];
        Size equal = low, more = high;
        for (Size i = low; i < more;) {
            if (s[i] < pivot)
                exchange(s[i++], s[equal++]);
            else if (pivot < s[i])
                exchange(s[i], s[--more]);
            else
                i++;
        }
        if (k < equal)
            high = equal;
        else if (k >= more)
            low = more;
        else
            return;
    }
}

double median(const Series &s) {
    Matrix scratch(1, s.size());
    if (scratch.empty() || s.size() == 0)
        return 0;
    Series row = scratch.row(0);
    Size middle = s.size() / 2;
    copy(s, row);
    select(row, middle);
    if (s.size() % 2)
        return row[middle];
    return (row[middle] + extreme(row.part(0, middle), [](double x, double y) {
                return x < y;
            })) / 2;
}

void sift_down(Matrix &m, Size key, Size i, Size n) {
    for (Size child = 2 * i + 1; child < n; child = 2 * i + 1) {
        if (child + 1 < n && m(child, key) < m(child + 1, key))
            child++;
        if (!(m(i, key) < m(child, key)))
            return;
        swap_lines(m.row(i), m.row(child));
        i = child;
    }
}

void accumulate(const Series &s) {
    double sum = 0;
    transform(s, [&sum](double v) { return sum += v; });
}

double window_mean(const Series &s, Size at, Size radius) {
    Size first = at - lesser(at, radius);
    return mean(s.part(first, lesser(at + radius + 1, s.size())));
}

} // namespace

void center_columns(Matrix &m) {
    for (Size c = 0; c < m.columns(); c++)
        center(m.column(c));
}

void standardize_columns(Matrix &m) {
    for (Size c = 0; c < m.columns(); c++)
        standardize(m.column(c));
}

Matrix covariance(const Matrix &m) {
    Matrix result(m.columns(), m.columns());
    for (Size r = 0; r < result.rows(); r++)
        for (Size c = 0; c <= r; c++)
            result(r, c) = result(c, r) = co_moment(m.column(r), m.column(c));
    return result;
}

Matrix correlation(const Matrix &m) {
    Matrix result = covariance(m);
    for (Size c = 0; c < result.columns(); c++) {
        double d = deviation(m.column(c));
        scale(result.row(c), ratio(1, d));
        scale(result.column(c), ratio(1, d));
    }
    return result;
}

double row_median(const Matrix &m, Size row) { return median(m.row(row)); }

double column_median(const Matrix &m, Size column) { return median(m.column(column)); }

void sort_rows_by(Matrix &m, Size column) {
    Size n = m.rows();
    for (Size i = n / 2; i-- > 0;)
        sift_down(m, column, i, n);
    for (; n > 1; n--) {
        swap_lines(m.row(0), m.row(n - 1));
        sift_down(m, column, 0, n - 1);
    }
}

// Sums along the rows, then along the columns.
void running_sums(Matrix &m) {
    for (Size r = 0; r < m.rows(); r++)
        accumulate(m.row(r));
    for (Size c = 0; c < m.columns(); c++)
        accumulate(m.column(c));
}

// Every column replaced by its moving average.
Matrix smooth(const Matrix &m, Size radius) {
    Matrix result(m.rows(), m.columns());
    for (Size c = 0; c < result.columns(); c++)
        for (Size r = 0; r < result.rows(); r++)
            result(r, c) = window_mean(m.column(c), r, radius);
    return result;
}

double trace(const Matrix &m) { return total(m.diagonal()); }

double largest(const Matrix &m) {
    return extreme(m.all(), [](double x, double y) { return absolute(x) < absolute(y); });
}

} // namespace matrix
