// SPDX-License-Identifier: Apache-2.0
// parser.cpp - recursive descent over UTF-8.
#include "json.hpp"

namespace json {

namespace {

constexpr int max_depth = 64;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

char *put_utf8(char *to, u32 point) {
    if (point < 0x80) {
        *to++ = static_cast<char>(point);
    } else if (point < 0x800) {
        *to++ = static_cast<char>(0xc0 | point >> 6);
        *to++ = static_cast<char>(0x80 | (point & 63));
    } else {
        *to++ = static_cast<char>(0xe0 | point >> 12);
        *to++ = static_cast<char>(0x80 | (point >> 6 & 63));
        *to++ = static_cast<char>(0x80 | (point & 63));
    }
    return to;
}

} // namespace

value *parser::parse() {
    value *root = parse_value(0);
    skip_spaces();
    return at_ == end_ ? root : nullptr;
}

void parser::skip_spaces() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r'))
        ++at_;
}

value *parser::make(kind type) {
    auto *made = static_cast<value *>(memory_.take(sizeof(value)));
    if (made)
        *made = value{type, false, 0, {nullptr, 0}, {nullptr, 0}, nullptr, nullptr, 0};
    return made;
}

bool parser::word(const char *expected) {
    for (; *expected; ++expected, ++at_)
        if (at_ == end_ || *at_ != *expected)
            return false;
    return true;
}

value *parser::parse_value(int depth) {
    skip_spaces();
    if (at_ == end_ || depth > max_depth)
        return nullptr;
    value *made = nullptr;
    switch (*at_) {
    case 'n':
        return word("null") ? make(kind::null) : nullptr;
    case 't':
    case 'f':
        made = make(kind::boolean);
        if (!made || !word(*at_ == 't' ? "true" : "false"))
            return nullptr;
        made->truth = at_[-2] == 'u';
        return made;
    case '"':
        made = make(kind::string);
        return made && parse_string(made->string) ? made : nullptr;
    case '[':
        made = make(kind::array);
        return made && parse_list(made, ']', depth) ? made : nullptr;
    case '{':
        made = make(kind::object);
        return made && parse_list(made, '}', depth) ? made : nullptr;
    default:
        made = make(kind::number);
        return made && parse_number(made->number) ? made : nullptr;
    }
}

bool parser::parse_list(value *parent, char close, int depth) {
    value **link = &parent->first;
    ++at_;
    skip_spaces();
    if (at_ < end_ && *at_ == close) {
        ++at_;
        return true;
    }
    for (;;) {
        text name{nullptr, 0};
        if (parent->type == kind::object) {
            skip_spaces();
            if (at_ == end_ || *at_ != '"' || !parse_string(name))
                return false;
            skip_spaces();
            if (at_ == end_ || *at_++ != ':')
                return false;
        }
        value *element = parse_value(depth + 1);
        if (!element)
            return false;
        element->name = name;
        *link = element;
        link = &element->next;
        ++parent->count;
        skip_spaces();
        if (at_ == end_)
            return false;
        char c = *at_++;
        if (c == close)
            return true;
        if (c != ',')
            return false;
    }
}

bool parser::parse_hex(u32 &out) {
    out = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
        if (at_ == end_)
            return false;
        char c = *at_;
        u32 digit = is_digit(c) ? static_cast<u32>(c - '0')
                    : c >= 'a' && c <= 'f' ? static_cast<u32>(c - 'a' + 10)
                    : c >= 'A' && c <= 'F' ? static_cast<u32>(c - 'A' + 10)
                                           : 16;
        if (digit == 16)
            return false;
        out = out << 4 | digit;
    }
    return true;
}

bool parser::parse_string(text &out) {
    const char *begin = ++at_;
    while (at_ < end_ && *at_ != '"')
        at_ += *at_ == '\\' ? 2 : 1;
    if (at_ >= end_)
        return false;
    const char *close = at_;
    auto *to = static_cast<char *>(memory_.take(static_cast<usize>(close - begin) + 1));
    if (!to)
        return false;
    out.data = to;
    for (at_ = begin; at_ < close;) {
        char c = *at_++;
        if (c != '\\') {
            *to++ = c;
            continue;
        }
        u32 point;
        switch (*at_++) {
        case 'n': *to++ = '\n'; break;
        case 't': *to++ = '\t'; break;
        case 'r': *to++ = '\r'; break;
        case 'b': *to++ = '\b'; break;
        case 'f': *to++ = '\f'; break;
        case 'u':
            if (!parse_hex(point))
                return false;
            to = put_utf8(to, point);
            break;
        default: *to++ = at_[-1];
        }
    }
    out.size = static_cast<usize>(to - out.data);
    at_ = close + 1;
    return true;
}

bool parser::parse_number(double &out) {
    bool negative = at_ < end_ && *at_ == '-';
    double scale = 1;
    int exponent = 0;
    at_ += negative;
    if (at_ == end_ || !is_digit(*at_))
        return false;
    double number = 0;
    for (; at_ < end_ && is_digit(*at_); ++at_)
        number = number * 10 + (*at_ - '0');
    if (at_ < end_ && *at_ == '.')
        for (++at_; at_ < end_ && is_digit(*at_); ++at_, scale *= 10)
            number = number * 10 + (*at_ - '0');
    if (at_ < end_ && (*at_ == 'e' || *at_ == 'E')) {
        ++at_;
        bool down = at_ < end_ && *at_ == '-';
        at_ += at_ < end_ && (*at_ == '-' || *at_ == '+');
        for (; at_ < end_ && is_digit(*at_); ++at_)
            exponent = exponent * 10 + (*at_ - '0');
        for (; exponent > 0; --exponent)
            (down ? scale : number) *= 10;
    }
    out = (negative ? -number : number) / scale;
    return true;
}

} // namespace json
