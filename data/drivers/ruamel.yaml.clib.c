/* libyaml, which ruamel.yaml.clib brings along: a document parsed to events, and these written out. */
#include "driver.h"
#include "yaml.h"

static char text[20000];
static unsigned char out[60000];

int main(void)
{
    size_t at = 0, size = 0, events = 0;
    yaml_parser_t parser;
    yaml_emitter_t emitter;
    for (int i = 0; at + 200 < sizeof text; i++)
        at += sprintf(text + at, "key%d: {a: %u, \"b c\": [1, 2.5, 'x%u'], d: ~}\nlist%d:\n  - text of %u words\n  - &a%d |\n    block\n    more\n",
                      i, driver_random() % 1000, driver_random() % 7, i, driver_random() % 50, i);
    if (!yaml_parser_initialize(&parser) || !yaml_emitter_initialize(&emitter))
        return 1;
    yaml_parser_set_input_string(&parser, (unsigned char *)text, at);
    yaml_emitter_set_output_string(&emitter, out, sizeof out, &size);
    for (int done = 0; !done; events++) {
        yaml_event_t event;
        if (!yaml_parser_parse(&parser, &event))
            return 2;
        done = event.type == YAML_STREAM_END_EVENT;
        if (!yaml_emitter_emit(&emitter, &event))
            return 3;
    }
    yaml_parser_delete(&parser);
    yaml_emitter_delete(&emitter);
    printf("%zu bytes in, %zu events, %zu bytes out, sum %08x\n", at, events, size, driver_sum(DRIVER_SUM, out, size));
    return 0;
}
