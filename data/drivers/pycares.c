/* c-ares: names, addresses and records of the DNS written and parsed. */
#include "driver.h"
#include <ares.h>
#include <arpa/inet.h>
#include <netinet/in.h>

int main(void)
{
    uint32_t sum = DRIVER_SUM;
    size_t bytes = 0;
    for (int round = 0; round < 160; round++) {
        char name[64], text[64];
        ares_dns_record_t *record = NULL, *parsed = NULL;
        unsigned char *wire = NULL;
        size_t size = 0;
        snprintf(name, sizeof name, "host%u.example%u.org", driver_random() % 1000, driver_random() % 10);
        if (ares_dns_record_create(&record, (unsigned short)round, ARES_FLAG_QR | ARES_FLAG_RD, ARES_OPCODE_QUERY,
                                   ARES_RCODE_NOERROR) != ARES_SUCCESS)
            return 1;
        ares_dns_record_query_add(record, name, ARES_REC_TYPE_A, ARES_CLASS_IN);
        for (int i = 0; i < 6; i++) {
            ares_dns_rr_t *rr = NULL;
            struct in_addr address = {driver_random()};
            if (i % 3 == 2) {
                ares_dns_record_rr_add(&rr, record, ARES_SECTION_ANSWER, name, ARES_REC_TYPE_MX, ARES_CLASS_IN, 60 + i);
                ares_dns_rr_set_u16(rr, ARES_RR_MX_PREFERENCE, (unsigned short)(10 * i));
                ares_dns_rr_set_str(rr, ARES_RR_MX_EXCHANGE, "mail.example.org");
            } else {
                ares_dns_record_rr_add(&rr, record, ARES_SECTION_ANSWER, name, ARES_REC_TYPE_A, ARES_CLASS_IN, 60 + i);
                ares_dns_rr_set_addr(rr, ARES_RR_A_ADDR, &address);
            }
        }
        if (ares_dns_write(record, &wire, &size) != ARES_SUCCESS || ares_dns_parse(wire, size, 0, &parsed) != ARES_SUCCESS)
            return 2;
        sum = driver_sum(sum, wire, size);
        bytes += size;
        for (size_t i = 0; i < ares_dns_record_rr_cnt(parsed, ARES_SECTION_ANSWER); i++) {
            const ares_dns_rr_t *rr = ares_dns_record_rr_get_const(parsed, ARES_SECTION_ANSWER, i);
            sum = driver_sum(sum, ares_dns_rr_get_name(rr), strlen(ares_dns_rr_get_name(rr)));
            if (ares_dns_rr_get_type(rr) == ARES_REC_TYPE_A) {
                ares_inet_ntop(AF_INET, ares_dns_rr_get_addr(rr, ARES_RR_A_ADDR), text, sizeof text);
                sum = driver_sum(sum, text, strlen(text));
            }
        }
        ares_free_string(wire);
        ares_dns_record_destroy(record);
        ares_dns_record_destroy(parsed);
    }
    printf("%zu bytes, sum %08x\n", bytes, sum);
    return 0;
}
