/* SPDX-License-Identifier: Apache-2.0
 * bodies.c - leapfrog steps of bodies that attract each other. */
#include "spectrum.h"

double energy(const body *bodies) {
    double total = 0;
    for (int i = 0; i < BODIES; i++) {
        const body *a = &bodies[i];
        total += a->mass * (a->vx * a->vx + a->vy * a->vy + a->vz * a->vz) / 2;
        for (int j = i + 1; j < BODIES; j++) {
            const body *b = &bodies[j];
            double x = a->x - b->x, y = a->y - b->y, z = a->z - b->z;
            total -= a->mass * b->mass / __builtin_sqrt(x * x + y * y + z * z + 0.01);
        }
    }
    return total;
}

void advance(body *bodies, double step) {
    for (int i = 0; i < BODIES; i++) {
        body *a = &bodies[i];
        double ax = a->x, ay = a->y, az = a->z, vx = a->vx, vy = a->vy, vz = a->vz, mass = a->mass * step;
        for (int j = i + 1; j < BODIES; j++) {
            body *b = &bodies[j];
            double x = ax - b->x, y = ay - b->y, z = az - b->z;
            double square = x * x + y * y + z * z + 0.01, pull = 1 / (square * __builtin_sqrt(square));
            double on_a = b->mass * step * pull, on_b = mass * pull;
            vx -= x * on_a, vy -= y * on_a, vz -= z * on_a;
            b->vx += x * on_b, b->vy += y * on_b, b->vz += z * on_b;
        }
        a->vx = vx, a->vy = vy, a->vz = vz;
    }
    for (int i = 0; i < BODIES; i++) {
        body *a = &bodies[i];
        a->x += a->vx * step, a->y += a->vy * step, a->z += a->vz * step;
    }
}
