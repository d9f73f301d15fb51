/* Zopfli: text compressed as gzip, thoroughly. */
#include "driver.h"
#include "zopfli.h"

int main(void)
{
    static char text[1500];
    ZopfliOptions options;
    unsigned char *out = NULL;
    size_t size = 0;
    driver_text(text, sizeof text);
    ZopfliInitOptions(&options);
    options.numiterations = 2;
    ZopfliCompress(&options, ZOPFLI_FORMAT_GZIP, (unsigned char *)text, sizeof text, &out, &size);
    printf("%zu bytes, sum %08x\n", size, driver_sum(DRIVER_SUM, out, size));
    free(out);
    return 0;
}
