/* xxHash: all of its hashes, of inputs of many lengths, whole and in pieces. */
#include "driver.h"
#include "xxhash.h"

static char text[20000];

int main(void)
{
    uint64_t sums[4] = {0};
    driver_text(text, sizeof text);
    for (size_t length = 0; length < 2600; length++) {
        const char *start = text + driver_random() % 15000;
        size_t many = length < 2000 ? length % 300 : length;
        sums[0] += XXH32(start, many, (uint32_t)length);
        sums[1] += XXH64(start, many, length);
        sums[2] ^= XXH3_64bits_withSeed(start, many, length);
        sums[3] ^= XXH3_128bits(start, many).high64;
    }
    XXH64_state_t *state = XXH64_createState();
    XXH64_reset(state, 7);
    for (size_t at = 0; at < sizeof text;) {
        size_t piece = 1 + driver_random() % 50;
        if (piece > sizeof text - at)
            piece = sizeof text - at;
        XXH64_update(state, text + at, piece);
        at += piece;
    }
    sums[1] += XXH64_digest(state);
    XXH64_freeState(state);
    for (int i = 0; i < 4; i++)
        printf("%016llx\n", (unsigned long long)sums[i]);
    return 0;
}
