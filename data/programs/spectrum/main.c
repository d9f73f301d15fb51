/* SPDX-License-Identifier: Apache-2.0
 * main.c - a signal transformed back and forth, then some time among the bodies. */
#include "spectrum.h"

int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);

#define SIZE 4096
#define ROUNDS 6
#define STEPS 6000

static u64 random_state = 6;

static double next_random(void) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (double)(random_state >> 33) / 2147483648.0;
}

/* Rounded to millionths. */
static long micro(double x) { return (long)(x * 1e6 + (x < 0 ? -0.5 : 0.5)); }

static int signals(void) {
    complex *data = malloc(SIZE * sizeof *data), *first = malloc(SIZE * sizeof *first);
    complex *roots = malloc(SIZE * sizeof *roots);
    double worst = 0, power = 0;
    if (!data || !first || !roots)
        return 0;
    make_roots(roots, SIZE);
    for (usize i = 0; i < SIZE; i++) {
        data[i].re = next_random() - 0.5;
        data[i].im = next_random() - 0.5;
        first[i] = data[i];
    }
    transform(data, roots, SIZE);
    for (usize i = 0; i < SIZE; i++)
        power += data[i].re * data[i].re + data[i].im * data[i].im;
    printf("power %ld\n", micro(power / SIZE));
    for (usize k = 1; k < 5; k++)
        printf("at %lu %ld %ld\n", k * 777, micro(data[k * 777].re), micro(data[k * 777].im));
    for (int round = 1; round < 2 * ROUNDS; round++) {
        transform(data, roots, SIZE);
        if (round % 2) /* two transforms reverse the signal and scale it */
            for (usize i = 0; i < SIZE; i++)
                data[i].re /= SIZE, data[i].im /= SIZE;
    }
    for (usize i = 0; i < SIZE; i++) {
        double re = data[i].re - first[i].re, im = data[i].im - first[i].im, error = re * re + im * im;
        worst = error > worst ? error : worst;
    }
    printf("%s\n", worst < 1e-24 ? "restored" : "differs");
    free(data);
    free(first);
    free(roots);
    return worst < 1e-24;
}

static void gravity(void) {
    body bodies[BODIES];
    for (int i = 0; i < BODIES; i++) {
        body *b = &bodies[i];
        b->x = 4 * next_random() - 2, b->y = 4 * next_random() - 2, b->z = 4 * next_random() - 2;
        b->vx = next_random() - 0.5, b->vy = next_random() - 0.5, b->vz = next_random() - 0.5;
        b->mass = 0.1 + next_random();
    }
    printf("energy %ld\n", micro(energy(bodies)));
    for (int i = 0; i < STEPS; i++)
        advance(bodies, 0.0005);
    printf("energy %ld\n", micro(energy(bodies)));
    for (int i = 0; i < BODIES; i++)
        printf("body %ld %ld %ld\n", micro(bodies[i].x), micro(bodies[i].y), micro(bodies[i].z));
}

int main(void) {
    int good = signals();
    gravity();
    return !good;
}
