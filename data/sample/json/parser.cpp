// SPDX-License-Identifier: Apache-2.0
// parser.cpp - the JSON parser: strict, with the place of the first error.
#include "json.hpp"

namespace json {
namespace {

constexpr unsigned max_depth = 256;

bool between(int c, int low, int high) { return c >= low && c <= high; }
bool is_digit(int c) { return between(c, '0', '9'); }
bool is_space(int c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_high(unsigned u) { return u - 0xd800 < 0x400; }
bool is_low(unsigned u) { return u - 0xdc00 < 0x400; }

int hex_digit(int c) {
    if (is_digit(c))
        return c - '0';
    int lower = c | 0x20;
    return between(lower, 'a', 'f') ? lower - 'a' + 10 : -1;
}

int plain_escape(int c) {
    switch (c) {
    case 'b': return '\b';
    case 'f': return '\f';
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case '"': case '\\': case '/': return c;
    default: return -1;
    }
}

// UTF-8: the first byte tells by its leading ones how many bytes there are.
void add_code(Text &t, unsigned code) {
    unsigned tail = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    unsigned mark = tail ? 0xff80 >> tail & 0xff : 0;
    t += static_cast<char>(mark | code >> 6 * tail);
    while (tail--)
        t += static_cast<char>(0x80 | (code >> 6 * tail & 0x3f));
}

double ten_to_the(unsigned n) {
    double power = 1, square = 10;
    for (; n; n /= 2) {
        if (n % 2)
            power *= square;
        square *= square;
    }
    return power;
}

class Parser {
public:
    explicit Parser(View source) : source_(source) { load(); }

    void document(Value &v) {
        value(v);
        skip_space();
        if (current_ >= 0)
            fail("something follows the value");
    }

    bool ok() const { return !error_; }

    Error error() const {
        Error e;
        e.what = error_;
        e.line = e.column = 1;
        for (char c : source_.upto(error_at_)) {
            e.line += c == '\n';
            e.column = c == '\n' ? 1 : e.column + 1;
        }
        return e;
    }

private:
    void load() {
        current_ = pos_ < source_.size ? static_cast<unsigned char>(source_[pos_]) : -1;
    }

    void next() {
        pos_++;
        load();
    }

    bool accept(int c) {
        if (current_ != c)
            return false;
        next();
        return true;
    }

    void fail(const char *what) {
        if (ok()) {
            error_ = what;
            error_at_ = pos_;
        }
    }

    void expect(int c, const char *what) {
        if (!accept(c))
            fail(what);
    }

    void skip_space() {
        while (is_space(current_))
            next();
    }

    void word(View text) {
        for (char c : text)
            expect(c, "unknown word");
    }

    void value(Value &v) {
        skip_space();
        switch (current_) {
        case 'n': return word("null");
        case 't': v.become(Kind::True); return word("true");
        case 'f': v.become(Kind::False); return word("false");
        case '"': v.become(Kind::String); return string(v.characters());
        case '[': v.become(Kind::Array); return container(v, ']');
        case '{': v.become(Kind::Object); return container(v, '}');
        default: v.become(Kind::Number, number());
        }
    }

    void container(Value &v, int close) {
        if (++depth_ > max_depth)
            fail("nested too deeply");
        next();
        if (!ends_with(close)) {
            do
                element(v);
            while (ok() && more(close));
        }
        depth_--;
    }

    void element(Value &v) {
        if (v.is(Kind::Object))
            member(v);
        else if (ok())
            value(v.add(Value()));
    }

    void member(Value &v) {
        skip_space();
        Text key;
        string(key);
        skip_space();
        expect(':', "expected :");
        if (v.find(key.view()))
            fail("the key is there twice");
        if (ok())
            value(v.add(take(key), Value()));
    }

    bool ends_with(int close) {
        skip_space();
        return accept(close);
    }

    // After an element: is there another one?
    bool more(int close) {
        skip_space();
        if (accept(','))
            return true;
        expect(close, "expected a comma or the end");
        return false;
    }

    void string(Text &t) {
        expect('"', "expected a string");
        while (ok() && !accept('"')) {
            if (current_ < 0x20)
                fail("the string does not end");
            else if (accept('\\'))
                escape(t);
            else
                take_char(t, current_);
        }
    }

    void take_char(Text &t, int c) {
        t += static_cast<char>(c);
        next();
    }

    void escape(Text &t) {
        if (accept('u'))
            return add_code(t, code_point());
        int c = plain_escape(current_);
        if (c < 0)
            return fail("unknown escape");
        take_char(t, c);
    }

    unsigned code_point() {
        unsigned first = code_unit();
        if (is_low(first))
            fail("half of a surrogate pair");
        if (!is_high(first))
            return first;
        expect('\\', "half of a surrogate pair");
        expect('u', "half of a surrogate pair");
        unsigned second = code_unit();
        if (!is_low(second))
            fail("half of a surrogate pair");
        return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
    }

    unsigned code_unit() {
        unsigned u = 0;
        for (int i = 0; i < 4; i++) {
            int digit = hex_digit(current_);
            if (digit < 0) {
                fail("expected four hex digits");
                return 0;
            }
            u = u * 16 + unsigned(digit);
            next();
        }
        return u;
    }

    unsigned digits(double &n) {
        unsigned count = 0;
        for (; is_digit(current_); count++) {
            n = n * 10 + (current_ - '0');
            next();
        }
        if (count == 0)
            fail("expected a digit");
        return count;
    }

    int exponent() {
        double n = 0;
        bool negative = accept('-');
        if (!negative)
            accept('+');
        digits(n);
        int limited = n > 9999 ? 9999 : int(n);
        return negative ? -limited : limited;
    }

    double number() {
        double n = 0;
        int scale = 0;
        bool negative = accept('-');
        if (!accept('0'))
            digits(n);
        if (accept('.'))
            scale = -int(digits(n));
        if (accept('e') || accept('E'))
            scale += exponent();
        if (n != 0)
            n = scale < 0 ? n / ten_to_the(unsigned(-scale)) : n * ten_to_the(unsigned(scale));
        return negative ? -n : n;
    }

    View source_;
    Size pos_ = 0;
    int current_ = -1; // the character at pos_, or -1 at the end
    Size error_at_ = 0;
    unsigned depth_ = 0;
    const char *error_ = nullptr;
};

} // namespace

bool parse(View source, Value &result, Error &error) {
    Parser p(source);
    Value v;
    p.document(v);
    result = take(v);
    if (!p.ok())
        error = p.error();
    return p.ok();
}

bool valid(View source) {
    Value ignored;
    Error error;
    return parse(source, ignored, error);
}

} // namespace json
