// SPDX-License-Identifier: Apache-2.0
// writer.cpp - JSON values as text: compact, indented, or one per line.
#include "json.hpp"

namespace json {
namespace {

constexpr double digits_limit = 1e15; // what a double holds as a whole number
constexpr unsigned long long fraction_unit = 1000000000;

char hex_digit(unsigned v) { return static_cast<char>(v < 10 ? '0' + v : 'a' + v - 10); }

bool is_finite(double x) { return x - x == 0; }

// Layouts: where line breaks go. Both have the same members, so that the
// writer is a template over them.
class Compact {
public:
    void open() {}
    void item(Text &) {}
    void close(Text &, bool) {}
    void after_colon(Text &) {}
};

class Indented {
public:
    explicit Indented(unsigned step) : step_(step) {}
    void open() { level_++; }
    void item(Text &out) { new_line(out); }
    void close(Text &out, bool empty) {
        level_--;
        if (!empty)
            new_line(out);
    }
    void after_colon(Text &out) { out += ' '; }

private:
    void new_line(Text &out) {
        out += '\n';
        for (unsigned i = level_ * step_; i; i--)
            out += ' ';
    }
    unsigned step_;
    unsigned level_ = 0;
};

void write_whole(Text &out, unsigned long long n) {
    char digit[20];
    unsigned count = 0;
    do {
        digit[count++] = static_cast<char>('0' + n % 10);
        n /= 10;
    } while (n);
    while (count)
        out += digit[--count];
}

// Up to nine digits after the point, without zeros at the end.
void write_fraction(Text &out, unsigned long long fraction) {
    if (fraction == 0)
        return;
    out += '.';
    for (unsigned long long unit = fraction_unit / 10; fraction; unit /= 10) {
        out += static_cast<char>('0' + fraction / unit);
        fraction %= unit;
    }
}

void write_fixed(Text &out, double x) {
    auto whole = static_cast<unsigned long long>(x);
    double rest = (x - double(whole)) * double(fraction_unit) + 0.5;
    auto fraction = static_cast<unsigned long long>(rest);
    if (fraction >= fraction_unit) {
        whole++;
        fraction = 0;
    }
    write_whole(out, whole);
    write_fraction(out, fraction);
}

// Bring x to 1 <= x < 10 and return the exponent that was taken out.
int normalize(double &x) {
    int exponent = 0;
    for (; x >= 10; exponent++)
        x /= 10;
    for (; x < 1; exponent--)
        x *= 10;
    return exponent;
}

void write_exponent(Text &out, int e) {
    out += 'e';
    if (e < 0)
        out += '-';
    write_whole(out, static_cast<unsigned long long>(e < 0 ? -e : e));
}

void write_scientific(Text &out, double x) {
    int e = normalize(x);
    write_fixed(out, x);
    write_exponent(out, e);
}

void write_number(Text &out, double x) {
    if (!is_finite(x)) {
        out += "null";
        return;
    }
    if (x < 0) {
        out += '-';
        x = -x;
    }
    if (x == 0 || (x >= 1e-4 && x < digits_limit))
        write_fixed(out, x);
    else
        write_scientific(out, x);
}

void write_unicode(Text &out, unsigned c) {
    out += "\\u00";
    out += hex_digit(c >> 4);
    out += hex_digit(c & 15);
}

void write_escaped(Text &out, char c) {
    switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    default: write_unicode(out, static_cast<unsigned char>(c));
    }
}

bool needs_escape(char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

void write_string(Text &out, View v) {
    out += '"';
    for (char c : v) {
        if (needs_escape(c))
            write_escaped(out, c);
        else
            out += c;
    }
    out += '"';
}

template <class Layout> class Writer {
public:
    Writer(Text &out, Layout layout) : out_(out), layout_(layout) {}

    void write(const Value &v) {
        switch (v.kind()) {
        case Kind::Null: out_ += "null"; break;
        case Kind::False: out_ += "false"; break;
        case Kind::True: out_ += "true"; break;
        case Kind::Number: write_number(out_, v.number()); break;
        case Kind::String: write_string(out_, v.text()); break;
        case Kind::Array: write_items(v, '[', ']', false); break;
        case Kind::Object: write_items(v, '{', '}', true); break;
        }
    }

private:
    void write_items(const Value &v, char open, char close, bool keys) {
        out_ += open;
        layout_.open();
        for (Size i = 0; i < v.size(); i++) {
            if (i)
                out_ += ',';
            layout_.item(out_);
            if (keys)
                write_key(v.key(i));
            write(v[i]);
        }
        layout_.close(out_, v.empty());
        out_ += close;
    }

    void write_key(View key) {
        write_string(out_, key);
        out_ += ':';
        layout_.after_colon(out_);
    }

    Text &out_;
    Layout layout_;
};

template <class Layout> void write_with(Text &out, const Value &v, Layout layout) {
    Writer<Layout>(out, layout).write(v);
}

} // namespace

Text write(const Value &v) {
    Text out;
    write_with(out, v, Compact());
    return out;
}

Text write_pretty(const Value &v, unsigned indent) {
    Text out;
    write_with(out, v, Indented(indent));
    out += '\n';
    return out;
}

// The elements of an array, one compact value per line.
Text write_lines(const Value &v) {
    Text out;
    for (Size i = 0; i < v.size(); i++) {
        write_with(out, v[i], Compact());
        out += '\n';
    }
    return out;
}

} // namespace json
