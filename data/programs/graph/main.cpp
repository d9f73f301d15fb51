// SPDX-License-Identifier: Apache-2.0
// main.cpp - searches in random graphs.
#include "graph.hpp"

namespace {

constexpr u32 num_nodes = 3000, num_edges = 9000, num_starts = 6, small_nodes = 110, small_edges = 700;

u64 random_state = 11;

u32 next_random() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<u32>(random_state >> 33);
}

void fill(array<edge> &edges, u32 nodes) {
    for (usize i = 0; i < edges.size(); ++i) {
        edges[i].from = next_random() % nodes;
        edges[i].to = next_random() % nodes;
        edges[i].weight = next_random() % 10000 + 1;
    }
}

u64 sum_of_reached(const array<u32> &distance, u32 *count) {
    u64 sum = 0;
    *count = 0;
    for (usize i = 0; i < distance.size(); ++i)
        if (distance[i] != unreached) {
            sum += distance[i];
            ++*count;
        }
    return sum;
}

} // namespace

int main() {
    array<edge> edges(num_edges), few(small_edges);
    fill(edges, num_nodes);
    fill(few, small_nodes);
    graph large(num_nodes, edges);
    array<u32> distance(num_nodes), component(num_nodes), pairs(small_nodes * small_nodes, unreached);
    u32 count;
    for (u32 start = 0; start < num_starts; ++start) {
        shortest_paths(large, start, distance);
        u64 sum = sum_of_reached(distance, &count);
        fewest_edges(large, start, distance);
        u32 same;
        u64 hops = sum_of_reached(distance, &same);
        printf("from %u: %u reached, distances %lu, edges %lu%s\n", start, count, sum, hops,
               same == count ? "" : ", differs");
    }
    u64 total = spanning_tree(large, &count);
    printf("trees %u of weight %lu\n", count, total);
    printf("strong components %u\n", strong_components(large, component));
    for (u32 i = 0; i < small_nodes; ++i)
        pairs[i * small_nodes + i] = 0;
    for (usize i = 0; i < small_edges; ++i) {
        u32 &known = pairs[few[i].from * small_nodes + few[i].to];
        if (few[i].weight < known)
            known = few[i].weight;
    }
    all_pairs(pairs, small_nodes);
    u64 sum = sum_of_reached(pairs, &count);
    printf("pairs %u, distances %lu\n", count, sum);
    graph small(small_nodes, few);
    array<u32> row(small_nodes);
    bool good = true;
    for (u32 from = 0; from < small_nodes; ++from) {
        shortest_paths(small, from, row);
        for (u32 to = 0; to < small_nodes; ++to)
            good = good && row[to] == pairs[from * small_nodes + to];
    }
    printf("%s\n", good ? "agree" : "differ");
    return good ? 0 : 1;
}
