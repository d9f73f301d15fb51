/* The least a host can do: read each observation, send back the built-in decision in it.
   Usage: echo_host BASE PAYLOAD_BYTES ANSWER_OFFSET ANSWER_BYTES; prints the number of answers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char buffer[1 << 20];

int main(int argc, char **argv) {
    if (argc != 5) return 2;
    size_t payload = strtoul(argv[2], 0, 10), offset = strtoul(argv[3], 0, 10), width = strtoul(argv[4], 0, 10);
    char path[4096];
    snprintf(path, sizeof path, "%s.in", argv[1]);
    int answers = open(path, O_WRONLY);
    snprintf(path, sizeof path, "%s.out", argv[1]);
    int questions = open(path, O_RDONLY);
    if (answers < 0 || questions < 0) return 3;
    size_t have = 0;
    unsigned long count = 0;
    ssize_t got;
    while ((got = read(questions, buffer + have, sizeof buffer - have)) > 0) {
        have += (size_t)got;
        size_t used = 0;
        char *end;
        while ((end = memchr(buffer + used, '\n', have - used))) {
            size_t line = (size_t)(end - buffer) + 1;
            if (strncmp(buffer + used, "{\"observation\"", 14) != 0) {
                used = line;
                continue;
            }
            if (have < line + payload + 1) break;
            if (write(answers, buffer + line + offset, width) != (ssize_t)width) return 4;
            count++;
            used = line + payload + 1;
        }
        memmove(buffer, buffer + used, have - used);
        have -= used;
    }
    printf("%lu\n", count);
    return 0;
}
