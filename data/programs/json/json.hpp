// SPDX-License-Identifier: Apache-2.0
// json.hpp - JSON values in an arena, a parser and a writer.
#ifndef JSON_HPP
#define JSON_HPP

using u8 = unsigned char;
using u32 = unsigned int;
using u64 = unsigned long;
using i64 = long;
using usize = unsigned long;

namespace json {

// Memory that is given back all at once.
class arena {
  public:
    arena(char *memory, usize size) : at_(memory), end_(memory + size) {}
    void *take(usize size) {
        usize rounded = (size + 7) & ~usize{7};
        if (static_cast<usize>(end_ - at_) < rounded)
            return nullptr;
        void *taken = at_;
        at_ += rounded;
        return taken;
    }

  private:
    char *at_, *end_;
};

enum class kind : u8 { null, boolean, number, string, array, object };

struct text {
    const char *data;
    usize size;
};

// Members of an object and elements of an array form a list; a member has a name.
struct value {
    kind type;
    bool truth;
    double number;
    text string;
    text name;
    value *first, *next;
    usize count;
};

class parser {
  public:
    parser(arena &memory, const char *begin, const char *end) : memory_(memory), at_(begin), end_(end) {}
    value *parse(); // null on any error

  private:
    value *parse_value(int depth);
    bool parse_list(value *parent, char close, int depth);
    bool parse_string(text &out);
    bool parse_number(double &out);
    bool parse_hex(u32 &out);
    bool word(const char *expected);
    void skip_spaces();
    value *make(kind type);

    arena &memory_;
    const char *at_, *end_;
};

class writer {
  public:
    writer(char *begin, usize size) : begin_(begin), at_(begin), end_(begin + size) {}
    void write(const value *node);
    usize size() const { return static_cast<usize>(at_ - begin_); }

  private:
    void put(char c) {
        if (at_ < end_)
            *at_++ = c;
    }
    void put_text(const char *text);
    void put_string(const text &string);
    void put_number(double number);

    char *begin_, *at_, *end_;
};

} // namespace json

#endif
