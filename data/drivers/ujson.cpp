// double-conversion, which ujson brings along: numbers to text in several forms, and back.
#include "double-conversion.h"
#include "driver.h"

using namespace double_conversion;

int main()
{
    const DoubleToStringConverter &to_text = DoubleToStringConverter::EcmaScriptConverter();
    StringToDoubleConverter from_text(StringToDoubleConverter::NO_FLAGS, 0.0, 0.0, "inf", "nan");
    uint32_t sum = DRIVER_SUM, same = 0;
    for (int i = 0; i < 3000; i++) {
        uint64_t bits = (uint64_t)driver_random() << 32 | driver_random();
        double value;
        char buffer[256];
        if (i % 3)
            value = (double)(int32_t)driver_random() / (1 + driver_random() % 10000);
        else
            memcpy(&value, &bits, sizeof value);
        StringBuilder shortest(buffer, sizeof buffer);
        if (!to_text.ToShortest(value, &shortest))
            return 1;
        int length = shortest.position(), taken;
        sum = driver_sum(sum, shortest.Finalize(), length);
        double back = from_text.StringToDouble(buffer, length, &taken);
        same += memcmp(&back, &value, sizeof value) == 0;
        StringBuilder exact(buffer, sizeof buffer);
        to_text.ToPrecision(value, 1 + i % 17, &exact);
        length = exact.position();
        sum = driver_sum(sum, exact.Finalize(), length);
    }
    printf("%u numbers came back, sum %08x\n", same, sum);
    return 0;
}
