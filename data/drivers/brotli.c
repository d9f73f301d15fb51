/* Brotli: text compressed at two qualities, and back. */
#include "driver.h"
#include <brotli/decode.h>
#include <brotli/encode.h>

static char text[60000], back[60000];
static uint8_t packed[70000];

int main(void)
{
    static const int qualities[] = {2, 6};
    driver_text(text, sizeof text);
    for (int i = 0; i < 2; i++) {
        size_t size = sizeof packed, length = sizeof back;
        if (!BrotliEncoderCompress(qualities[i], 16, BROTLI_MODE_TEXT, sizeof text, (uint8_t *)text, &size, packed))
            return 1;
        if (BrotliDecoderDecompress(size, packed, &length, (uint8_t *)back) != BROTLI_DECODER_RESULT_SUCCESS)
            return 2;
        printf("quality %d: %zu bytes, sum %08x, %s\n", qualities[i], size, driver_sum(DRIVER_SUM, packed, size),
               length == sizeof text && !memcmp(text, back, length) ? "same" : "different");
    }
    return 0;
}
