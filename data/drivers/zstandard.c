/* Zstandard: text compressed at two levels, and back. */
#include "driver.h"
#include <zstd.h>

static char text[80000], back[80000], packed[90000];

int main(void)
{
    static const int levels[] = {1, 5};
    driver_text(text, sizeof text);
    for (int i = 0; i < 2; i++) {
        size_t size = ZSTD_compress(packed, sizeof packed, text, sizeof text, levels[i]);
        if (ZSTD_isError(size))
            return 1;
        size_t length = ZSTD_decompress(back, sizeof back, packed, size);
        printf("level %d: %zu bytes, sum %08x, %s\n", levels[i], size, driver_sum(DRIVER_SUM, packed, size),
               length == sizeof text && !memcmp(text, back, length) ? "same" : "different");
    }
    return 0;
}
