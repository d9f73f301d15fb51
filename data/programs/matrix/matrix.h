/* SPDX-License-Identifier: Apache-2.0
 * matrix.h - dense matrices of doubles, row by row, and grids of integers. */
#ifndef MATRIX_H
#define MATRIX_H

typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

/* c += a b, all n by n; n is a multiple of 4. */
void multiply(const double *restrict a, const double *restrict b, double *restrict c, int n);

/* Factors a in place with row exchanges; returns the determinant's sign, 0 if a is singular. */
int lu_factor(double *a, int *pivot, int n);
void lu_solve(const double *lu, const int *pivot, double *x, int n);

/* A nine-point stencil and a box of 5 by 5, both modulo 2^16; the border stays. */
void stencil(const int *restrict in, int *restrict out, int width, int height);
void box(const int *restrict in, int *restrict out, int width, int height);

#endif
