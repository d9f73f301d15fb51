/* cmark: a document rendered as HTML and as CommonMark. */
#include "driver.h"
#include "cmark-gfm.h"

static char text[24000];

int main(void)
{
    size_t at = 0;
    while (at + 600 < sizeof text) {
        char words[120];
        driver_text(words, sizeof words - 1);
        switch (driver_random() % 6) {
        case 0: at += sprintf(text + at, "\n# Title %u\n\n", driver_random() % 100); break;
        case 1: at += sprintf(text + at, "- *%.20s*\n- **%.20s** `code %u`\n", words, words + 40, driver_random() % 9); break;
        case 2: at += sprintf(text + at, "\n> %s\n\n", words); break;
        case 3: at += sprintf(text + at, "[link %u](http://example.org/%u \"t\") & <b>%.30s</b>\n\n", driver_random() % 9, driver_random(), words); break;
        case 4: at += sprintf(text + at, "\n```c\n%s\n```\n\n1. one\n2. two\n\n", words); break;
        default: at += sprintf(text + at, "%s\n", words);
        }
    }
    cmark_node *document = cmark_parse_document(text, at, CMARK_OPT_DEFAULT);
    char *html = cmark_render_html(document, CMARK_OPT_SMART, NULL), *plain = cmark_render_commonmark(document, 0, 72);
    printf("%zu bytes, HTML %zu, sum %08x, CommonMark %zu, sum %08x\n", at, strlen(html),
           driver_sum(DRIVER_SUM, html, strlen(html)), strlen(plain), driver_sum(DRIVER_SUM, plain, strlen(plain)));
    free(html);
    free(plain);
    cmark_node_free(document);
    return 0;
}
