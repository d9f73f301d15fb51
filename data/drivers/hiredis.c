/* hiredis: commands formatted, replies parsed in pieces, strings joined. */
#include "driver.h"
#include "hiredis.h"
#include "sds.h"

static uint32_t sum = DRIVER_SUM;

static void take(const redisReply *reply)
{
    sum = driver_sum(sum, &reply->type, sizeof reply->type);
    if (reply->str)
        sum = driver_sum(sum, reply->str, reply->len);
    sum = driver_sum(sum, &reply->integer, sizeof reply->integer);
    for (size_t i = 0; i < reply->elements; i++)
        take(reply->element[i]);
}

int main(void)
{
    static char text[4000];
    redisReader *reader = redisReaderCreate();
    size_t replies = 0, commands = 0;
    driver_text(text, sizeof text);
    for (int round = 0; round < 700; round++) {
        sds stream = sdsempty();
        int elements = 1 + driver_random() % 8;
        stream = sdscatprintf(stream, "*%d\r\n", elements);
        for (int i = 0; i < elements; i++) {
            int length = driver_random() % 40, kind = driver_random() % 4;
            if (kind == 0)
                stream = sdscatfmt(stream, ":%i\r\n", (int)(driver_random() % 100000) - 5000);
            else if (kind == 1)
                stream = sdscat(stream, "$-1\r\n");
            else {
                stream = sdscatprintf(stream, "$%d\r\n", length);
                stream = sdscatlen(stream, text + driver_random() % 3900, length);
                stream = sdscat(stream, "\r\n");
            }
        }
        for (size_t at = 0; at < sdslen(stream);) {
            size_t piece = 1 + driver_random() % 24;
            void *reply = NULL;
            if (piece > sdslen(stream) - at)
                piece = sdslen(stream) - at;
            redisReaderFeed(reader, stream + at, piece);
            at += piece;
            if (redisReaderGetReply(reader, &reply) != REDIS_OK)
                return 1;
            if (reply) {
                take(reply);
                freeReplyObject(reply);
                replies++;
            }
        }
        sdsfree(stream);
        char *command = NULL;
        int size = redisFormatCommand(&command, "SET key:%d %b EX %d", round, text + round, (size_t)20, round % 60);
        if (size < 0)
            return 2;
        sum = driver_sum(sum, command, size);
        commands += size;
        redisFreeCommand(command);
    }
    redisReaderFree(reader);
    printf("%zu replies, %zu bytes of commands, sum %08x\n", replies, commands, sum);
    return 0;
}
