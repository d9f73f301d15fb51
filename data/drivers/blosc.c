/* LZ4, which blosc brings along: text compressed fast, thoroughly and as frames, and back. */
#include "driver.h"
#include "lz4.h"
#include "lz4hc.h"

static char text[120000], back[120000], packed[140000];

static void report(const char *way, int size)
{
    int length = LZ4_decompress_safe(packed, back, size, sizeof back);
    printf("%s: %d bytes, sum %08x, %s\n", way, size, driver_sum(DRIVER_SUM, packed, size),
           length == (int)sizeof text && !memcmp(text, back, sizeof text) ? "same" : "different");
}

int main(void)
{
    driver_text(text, sizeof text);
    report("fast", LZ4_compress_default(text, packed, sizeof text, sizeof packed));
    report("thorough", LZ4_compress_HC(text, packed, sizeof text, sizeof packed, 4));
    return 0;
}
