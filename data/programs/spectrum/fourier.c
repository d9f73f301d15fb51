/* SPDX-License-Identifier: Apache-2.0
 * fourier.c - radix 4, decimation in frequency. */
#include "spectrum.h"

/* Sine and cosine of a small angle by their series. */
static complex turn(double angle) {
    complex out = {1, 0};
    double term = 1;
    for (int n = 1; n < 24; n += 2) {
        term *= angle / n;
        out.im += n / 2 % 2 ? -term : term;
        term *= angle / (n + 1);
        out.re += (n + 1) / 2 % 2 ? -term : term;
    }
    return out;
}

void make_roots(complex *roots, usize size) {
    double step = -6.283185307179586476925 / (double)size;
    usize quarter = size / 4;
    for (usize k = 0; k < quarter; k++) {
        complex w = turn(step * (double)k);
        roots[k] = w;
        roots[k + quarter] = (complex){w.im, -w.re};
        roots[k + 2 * quarter] = (complex){-w.re, -w.im};
        roots[k + 3 * quarter] = (complex){-w.im, w.re};
    }
}

static complex times(complex a, complex b) { return (complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

static void butterflies(complex *data, const complex *roots, usize length, usize stride) {
    usize quarter = length / 4;
    complex *p0 = data, *p1 = p0 + quarter, *p2 = p1 + quarter, *p3 = p2 + quarter;
    for (usize k = 0; k < quarter; k++) {
        complex a = p0[k], b = p1[k], c = p2[k], d = p3[k];
        complex w1 = roots[k * stride], w2 = roots[2 * k * stride], w3 = roots[3 * k * stride];
        double sum_re = a.re + c.re, sum_im = a.im + c.im, dif_re = a.re - c.re, dif_im = a.im - c.im;
        double odd_re = b.re + d.re, odd_im = b.im + d.im, rot_re = b.im - d.im, rot_im = d.re - b.re;
        p0[k] = (complex){sum_re + odd_re, sum_im + odd_im};
        p1[k] = times((complex){dif_re + rot_re, dif_im + rot_im}, w1);
        p2[k] = times((complex){sum_re - odd_re, sum_im - odd_im}, w2);
        p3[k] = times((complex){dif_re - rot_re, dif_im - rot_im}, w3);
    }
}

/* After the butterflies the entries stand in the order of their digits to the base 4, reversed. */
static void reorder(complex *data, usize size) {
    for (usize i = 0; i < size; i++) {
        usize reversed = 0;
        for (usize rest = i, length = size; length > 1; length /= 4, rest /= 4)
            reversed = reversed * 4 + rest % 4;
        if (i < reversed) {
            complex swapped = data[i];
            data[i] = data[reversed];
            data[reversed] = swapped;
        }
    }
}

void transform(complex *data, const complex *roots, usize size) {
    for (usize length = size, stride = 1; length > 1; length /= 4, stride *= 4)
        for (usize start = 0; start < size; start += length)
            butterflies(data + start, roots, length, stride);
    reorder(data, size);
}
