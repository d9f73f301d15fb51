// SPDX-License-Identifier: Apache-2.0
// json.hpp - a JSON value, its parser and its writer. The list and the text
// class below replace the standard library; running out of memory is fatal.
#ifndef JSON_HPP
#define JSON_HPP

extern "C" void *malloc(__SIZE_TYPE__ size);
extern "C" void free(void *p);

namespace json {

using Size = __SIZE_TYPE__;

struct Place { // where to construct an object
    void *at;
};

} // namespace json

inline void *operator new(__SIZE_TYPE__, json::Place place) noexcept { return place.at; }

namespace json {

template <class T> T &&take(T &x) { return static_cast<T &&>(x); }

// A growing array; elements are moved when it grows.
template <class T> class List {
public:
    List() = default;
    List(const List &o) {
        reserve(o.size_);
        for (const T &x : o)
            add(T(x));
    }
    List(List &&o) noexcept { swap(o); }
    List &operator=(List &&o) noexcept {
        swap(o);
        return *this;
    }
    List &operator=(const List &o) { return *this = List(o); }
    ~List() {
        clear();
        free(data_);
    }

    Size size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T *begin() { return data_; }
    T *end() { return data_ + size_; }
    const T *begin() const { return data_; }
    const T *end() const { return data_ + size_; }
    T &operator[](Size i) { return data_[i]; }
    const T &operator[](Size i) const { return data_[i]; }
    T &last() { return data_[size_ - 1]; }

    T &add(T &&x) {
        if (size_ == capacity_)
            reserve(capacity_ ? capacity_ * 2 : 4);
        return *new (Place{data_ + size_++}) T(take(x));
    }
    void remove_last() { data_[--size_].~T(); }
    void remove(Size i) {
        for (; i + 1 < size_; i++)
            data_[i] = take(data_[i + 1]);
        remove_last();
    }
    void clear() {
        while (size_)
            remove_last();
    }
    void reserve(Size n) {
        if (n <= capacity_)
            return;
        T *fresh = static_cast<T *>(malloc(n * sizeof(T)));
        if (!fresh)
            __builtin_trap();
        for (Size i = 0; i < size_; i++) {
            new (Place{fresh + i}) T(take(data_[i]));
            data_[i].~T();
        }
        free(data_);
        data_ = fresh;
        capacity_ = n;
    }
    void swap(List &o) {
        T *data = data_;
        Size size = size_, capacity = capacity_;
        data_ = o.data_;
        size_ = o.size_;
        capacity_ = o.capacity_;
        o.data_ = data;
        o.size_ = size;
        o.capacity_ = capacity;
    }

private:
    T *data_ = nullptr;
    Size size_ = 0;
    Size capacity_ = 0;
};

// A view of characters that somebody else owns.
struct View {
    const char *data = nullptr;
    Size size = 0;
    View() = default;
    View(const char *text) : data(text), size(__builtin_strlen(text)) {}
    View(const char *text, Size n) : data(text), size(n) {}
    bool empty() const { return size == 0; }
    char operator[](Size i) const { return data[i]; }
    const char *begin() const { return data; }
    const char *end() const { return data + size; }
    View from(Size i) const { return View(data + i, size - i); }
    View upto(Size i) const { return View(data, i); }
    friend bool operator==(View x, View y) {
        return x.size == y.size && __builtin_memcmp(x.data, y.data, x.size) == 0;
    }
};

class Text {
public:
    Text() = default;
    Text(View v) { *this += v; }
    Text &operator+=(char c) {
        chars_.add(take(c));
        return *this;
    }
    Text &operator+=(View v) {
        chars_.reserve(chars_.size() + v.size);
        for (char c : v)
            chars_.add(take(c));
        return *this;
    }
    View view() const { return View(chars_.begin(), chars_.size()); }
    Size size() const { return chars_.size(); }

private:
    List<char> chars_;
};

enum class Kind : unsigned char { Null, False, True, Number, String, Array, Object };

// An object is two lists side by side: the keys and the values.
class Value {
public:
    Value() = default;
    explicit Value(Kind k) : kind_(k) {}
    explicit Value(double n) : kind_(Kind::Number), number_(n) {}
    explicit Value(Text &&t) : kind_(Kind::String), text_(take(t)) {}

    Kind kind() const { return kind_; }
    bool is(Kind k) const { return kind_ == k; }
    bool is_container() const { return kind_ >= Kind::Array; }
    double number() const { return number_; }
    View text() const { return text_.view(); }
    Text &characters() { return text_; }
    Size size() const { return items_.size(); }
    bool empty() const { return items_.empty(); }
    Value &operator[](Size i) { return items_[i]; }
    const Value &operator[](Size i) const { return items_[i]; }
    View key(Size i) const { return keys_[i].view(); }

    // Turn a fresh value, which is null, into something else.
    void become(Kind k, double n = 0) {
        kind_ = k;
        number_ = n;
    }
    Value &add(Value &&v) { return items_.add(take(v)); }
    Value &add(Text &&key, Value &&v) {
        keys_.add(take(key));
        return items_.add(take(v));
    }

    // value.cpp
    const Value *find(View key) const;
    Value &set(View key, Value &&v);
    bool remove(View key);
    const Value *at(View pointer) const;
    void merge(const Value &patch);
    Size count() const;
    Size depth() const;
    friend bool operator==(const Value &x, const Value &y);

private:
    Size index_of(View key) const;

    Kind kind_ = Kind::Null;
    double number_ = 0;
    Text text_;
    List<Text> keys_;
    List<Value> items_;
};

struct Error {
    const char *what = nullptr;
    Size line = 0;
    Size column = 0;
};

// parser.cpp
bool parse(View source, Value &result, Error &error);
bool valid(View source);

// writer.cpp
Text write(const Value &v);
Text write_pretty(const Value &v, unsigned indent);
Text write_lines(const Value &v);

} // namespace json

#endif
