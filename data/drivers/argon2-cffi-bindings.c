/* Argon2: keys derived from passwords, encoded and verified. */
#include "driver.h"
#include <argon2.h>

int main(void)
{
    unsigned char key[32];
    char encoded[128];
    if (argon2id_hash_raw(1, 64, 1, "password", 8, "somesalt", 8, key, sizeof key) != ARGON2_OK)
        return 1;
    printf("%08x\n", driver_sum(DRIVER_SUM, key, sizeof key));
    if (argon2i_hash_encoded(2, 32, 1, "another password", 16, "saltsalt", 8, 24, encoded, sizeof encoded) != ARGON2_OK)
        return 2;
    printf("%s\n%d %d\n", encoded, argon2i_verify(encoded, "another password", 16),
           argon2i_verify(encoded, "a wrong password", 16) == ARGON2_VERIFY_MISMATCH);
    return 0;
}
