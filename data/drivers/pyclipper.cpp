// Clipper: unions, intersections and differences of random polygons.
#include "clipper.hpp"
#include "driver.h"

using namespace ClipperLib;

static Path polygon(int corners)
{
    Path path;
    for (int i = 0; i < corners; i++)
        path.push_back(IntPoint(driver_random() % 10000, driver_random() % 10000));
    return path;
}

int main()
{
    static const ClipType types[] = {ctUnion, ctIntersection, ctDifference, ctXor};
    for (int round = 0; round < 12; round++) {
        Clipper clipper;
        Paths solution;
        for (int i = 0; i < 3; i++) {
            clipper.AddPath(polygon(12), ptSubject, true);
            clipper.AddPath(polygon(10), ptClip, true);
        }
        if (!clipper.Execute(types[round % 4], solution, pftEvenOdd, pftNonZero))
            return 1;
        uint32_t sum = DRIVER_SUM;
        size_t corners = 0;
        for (const Path &path : solution) {
            corners += path.size();
            for (const IntPoint &point : path) {
                long long at[] = {(long long)point.X, (long long)point.Y};
                sum = driver_sum(sum, at, sizeof at);
            }
        }
        printf("%zu polygons, %zu corners, sum %08x\n", solution.size(), corners, sum);
    }
    return 0;
}
