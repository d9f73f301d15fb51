/* SPDX-License-Identifier: Apache-2.0
 * spectrum.h - Fourier transforms and bodies under gravity. */
#ifndef SPECTRUM_H
#define SPECTRUM_H

typedef unsigned int u32;
typedef unsigned long u64;
typedef unsigned long usize;

typedef struct {
    double re, im;
} complex;

/* Size is a power of 4; roots[k] = exp(-2 pi i k / size). The result is in natural order. */
void make_roots(complex *roots, usize size);
void transform(complex *data, const complex *roots, usize size);

#define BODIES 6

typedef struct {
    double x, y, z, vx, vy, vz, mass;
} body;

double energy(const body *bodies);
void advance(body *bodies, double step);

#endif
