/* SPDX-License-Identifier: Apache-2.0
 * main.c - products with whole results, a linear system, and grids. */
#include "matrix.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define N 120
#define WIDTH 200
#define HEIGHT 150
#define STEPS 12

static u64 random_state = 5;

static u32 next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (u32)(random_state >> 33);
}

static int product(void) {
    double *a = malloc(N * N * sizeof *a), *b = malloc(N * N * sizeof *b), *c = malloc(N * N * sizeof *c);
    u64 sum = 0;
    double trace = 0;
    if (!a || !b || !c)
        return 0;
    for (int i = 0; i < N * N; i++) {
        a[i] = (double)(next_random() % 100);
        b[i] = (double)(next_random() % 100);
        c[i] = 0;
    }
    multiply(a, b, c, N);
    multiply(b, a, c, N);
    for (int i = 0; i < N * N; i++)
        sum = sum * 31 + (u64)c[i];
    for (int i = 0; i < N; i++)
        trace += c[i * N + i];
    printf("product %016lx trace %ld\n", sum, (long)trace);
    free(a);
    free(b);
    free(c);
    return 1;
}

static int system_of_equations(void) {
    double *a = malloc(N * N * sizeof *a), x[N], determinant;
    int pivot[N], wrong = 0;
    if (!a)
        return 0;
    for (int i = 0; i < N; i++) {
        x[i] = 0;
        for (int j = 0; j < N; j++) {
            a[i * N + j] = (double)(next_random() % 1000) / 1000 + (i == j ? 3 : 0);
            x[i] += a[i * N + j] * (j + 1); /* so that the solution is 1, 2, 3, ... */
        }
    }
    determinant = lu_factor(a, pivot, N);
    for (int i = 0; i < N; i++)
        determinant *= a[i * N + i] / 3;
    lu_solve(a, pivot, x, N);
    for (int i = 0; i < N; i++)
        wrong += x[i] < i + 1 - 1e-8 || x[i] > i + 1 + 1e-8;
    printf("determinant / 3^%d millionths %ld wrong %d\n", N, (long)(determinant * 1e6), wrong);
    free(a);
    return wrong == 0;
}

static int grids(void) {
    int *a = malloc(WIDTH * HEIGHT * sizeof *a), *b = malloc(WIDTH * HEIGHT * sizeof *b);
    u64 sum = 0;
    if (!a || !b)
        return 0;
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        a[i] = b[i] = (int)(next_random() & 0xffff);
    for (int step = 0; step < STEPS; step++) {
        stencil(a, b, WIDTH, HEIGHT);
        box(b, a, WIDTH, HEIGHT);
    }
    for (int i = 0; i < WIDTH * HEIGHT; i++)
        sum = sum * 31 + (u64)a[i];
    printf("grid %016lx\n", sum);
    free(a);
    free(b);
    return 1;
}

int main(void) {
    int good = product();
    good &= system_of_equations();
    good &= grids();
    return !good;
}
