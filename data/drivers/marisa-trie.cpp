// Marisa: a trie of words, looked up, searched by prefix and reversed.
#include "driver.h"
#include <marisa/trie.h>

int main()
{
    static char text[30000];
    marisa::Keyset keys;
    marisa::Trie trie;
    driver_text(text, sizeof text);
    for (size_t at = 0, start = 0; at < sizeof text; at++)
        if (text[at] == '\n') {
            if (at > start)
                keys.push_back(text + start, at - start);
            start = at + 1;
        }
    trie.build(keys);
    uint32_t sum = DRIVER_SUM;
    size_t found = 0;
    for (int round = 0; round < 1500; round++) {
        const char *start = text + driver_random() % (sizeof text - 100);
        marisa::Agent agent;
        agent.set_query(start, 1 + driver_random() % 60);
        while (trie.common_prefix_search(agent))
            found++;
        agent.set_query((size_t)driver_random() % trie.size());
        trie.reverse_lookup(agent);
        sum = driver_sum(sum, agent.key().ptr(), agent.key().length());
    }
    marisa::Agent agent;
    agent.set_query("th", 1);
    while (trie.predictive_search(agent))
        sum = driver_sum(sum, agent.key().ptr(), agent.key().length());
    printf("%zu keys in %zu bytes, %zu prefixes, sum %08x\n", trie.size(), trie.io_size(), found, sum);
    return 0;
}
