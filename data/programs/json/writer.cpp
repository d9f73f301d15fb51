// SPDX-License-Identifier: Apache-2.0
// writer.cpp - compact text of a value; fractions are written with four digits.
#include "json.hpp"

namespace json {

void writer::put_text(const char *text) {
    while (*text)
        put(*text++);
}

void writer::put_string(const text &string) {
    static const char hex[] = "0123456789abcdef";
    put('"');
    for (usize i = 0; i < string.size; ++i) {
        char c = string.data[i];
        switch (c) {
        case '"': put_text("\\\""); break;
        case '\\': put_text("\\\\"); break;
        case '\n': put_text("\\n"); break;
        case '\t': put_text("\\t"); break;
        default:
            if (static_cast<u8>(c) >= 0x20) {
                put(c);
            } else {
                put_text("\\u00");
                put(hex[c >> 4]);
                put(hex[c & 15]);
            }
        }
    }
    put('"');
}

void writer::put_number(double number) {
    char digits[32];
    int count = 0;
    if (number < 0) {
        put('-');
        number = -number;
    }
    u64 scaled = static_cast<u64>(number * 10000 + 0.5), whole = scaled / 10000, fraction = scaled % 10000;
    do
        digits[count++] = static_cast<char>('0' + whole % 10);
    while (whole /= 10);
    while (count > 0)
        put(digits[--count]);
    if (fraction) {
        put('.');
        for (u64 unit = 1000; unit && fraction; unit /= 10) {
            put(static_cast<char>('0' + fraction / unit));
            fraction %= unit;
        }
    }
}

void writer::write(const value *node) {
    switch (node->type) {
    case kind::null: put_text("null"); return;
    case kind::boolean: put_text(node->truth ? "true" : "false"); return;
    case kind::number: put_number(node->number); return;
    case kind::string: put_string(node->string); return;
    case kind::array:
    case kind::object: break;
    }
    bool named = node->type == kind::object;
    put(named ? '{' : '[');
    for (const value *child = node->first; child; child = child->next) {
        if (child != node->first)
            put(',');
        if (named) {
            put_string(child->name);
            put(':');
        }
        write(child);
    }
    put(named ? '}' : ']');
}

} // namespace json
