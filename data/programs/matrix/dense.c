/* SPDX-License-Identifier: Apache-2.0
 * dense.c - product by tiles of 4 by 4 kept in variables, LU decomposition, triangular solves. */
#include "matrix.h"

void multiply(const double *restrict a, const double *restrict b, double *restrict c, int n) {
    for (int i = 0; i < n; i += 4)
        for (int j = 0; j < n; j += 4) {
            const double *a0 = a + (usize)i * (usize)n, *a1 = a0 + n, *a2 = a1 + n, *a3 = a2 + n;
            double *c0 = c + (usize)i * (usize)n + j, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n;
            double s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
            double s20 = 0, s21 = 0, s22 = 0, s23 = 0, s30 = 0, s31 = 0, s32 = 0, s33 = 0;
            for (int k = 0; k < n; k++) {
                const double *row = b + (usize)k * (usize)n + j;
                double b0 = row[0], b1 = row[1], b2 = row[2], b3 = row[3];
                double x = a0[k], y = a1[k], z = a2[k], w = a3[k];
                s00 += x * b0, s01 += x * b1, s02 += x * b2, s03 += x * b3;
                s10 += y * b0, s11 += y * b1, s12 += y * b2, s13 += y * b3;
                s20 += z * b0, s21 += z * b1, s22 += z * b2, s23 += z * b3;
                s30 += w * b0, s31 += w * b1, s32 += w * b2, s33 += w * b3;
            }
            c0[0] += s00, c0[1] += s01, c0[2] += s02, c0[3] += s03;
            c1[0] += s10, c1[1] += s11, c1[2] += s12, c1[3] += s13;
            c2[0] += s20, c2[1] += s21, c2[2] += s22, c2[3] += s23;
            c3[0] += s30, c3[1] += s31, c3[2] += s32, c3[3] += s33;
        }
}

static double magnitude(double x) { return x < 0 ? -x : x; }

int lu_factor(double *a, int *pivot, int n) {
    int sign = 1;
    for (int k = 0; k < n; k++) {
        int best = k;
        for (int i = k + 1; i < n; i++)
            if (magnitude(a[i * n + k]) > magnitude(a[best * n + k]))
                best = i;
        pivot[k] = best;
        if (a[best * n + k] == 0)
            return 0;
        if (best != k) {
            sign = -sign;
            for (int j = 0; j < n; j++) {
                double swapped = a[k * n + j];
                a[k * n + j] = a[best * n + j];
                a[best * n + j] = swapped;
            }
        }
        for (int i = k + 1; i < n; i++) {
            double factor = a[i * n + k] /= a[k * n + k];
            for (int j = k + 1; j < n; j++)
                a[i * n + j] -= factor * a[k * n + j];
        }
    }
    return sign;
}

void lu_solve(const double *lu, const int *pivot, double *x, int n) {
    for (int k = 0; k < n; k++) {
        double swapped = x[k];
        x[k] = x[pivot[k]];
        x[pivot[k]] = swapped;
    }
    for (int i = 1; i < n; i++) {
        double sum = x[i];
        for (int j = 0; j < i; j++)
            sum -= lu[i * n + j] * x[j];
        x[i] = sum;
    }
    for (int i = n - 1; i >= 0; i--) {
        double sum = x[i];
        for (int j = i + 1; j < n; j++)
            sum -= lu[i * n + j] * x[j];
        x[i] = sum / lu[i * n + i];
    }
}
