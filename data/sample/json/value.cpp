// SPDX-License-Identifier: Apache-2.0
// value.cpp - operations on JSON values: look-up by key and by pointer,
// merge patches, equality, size.
#include "json.hpp"

namespace json {
namespace {

constexpr Size nowhere = Size(-1);

Size greater(Size x, Size y) { return x > y ? x : y; }
Size lesser(Size x, Size y) { return x < y ? x : y; }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

Size find_char(View v, char c) {
    Size i = 0;
    while (i < v.size && v[i] != c)
        i++;
    return i;
}

// "~1" stands for a slash and "~0" for a tilde.
Text unescape(View part) {
    Text t;
    for (Size i = 0; i < part.size; i++) {
        if (part[i] == '~' && i + 1 < part.size)
            t += part[++i] == '1' ? '/' : '~';
        else
            t += part[i];
    }
    return t;
}

Size array_index(View part, Size limit) {
    Size n = 0;
    if (part.empty() || (part[0] == '0' && part.size > 1))
        return nowhere;
    for (char c : part) {
        if (!is_digit(c))
            return nowhere;
        n = lesser(n * 10 + Size(c - '0'), limit);
    }
    return n < limit ? n : nowhere;
}

const Value *element(const Value &v, View part) {
    Size i = array_index(part, v.size());
    return i == nowhere ? nullptr : &v[i];
}

const Value *child(const Value &v, View part) {
    if (v.is(Kind::Array))
        return element(v, part);
    if (v.is(Kind::Object))
        return v.find(unescape(part).view());
    return nullptr;
}

bool same_items(const Value &x, const Value &y) {
    if (x.size() != y.size())
        return false;
    for (Size i = 0; i < x.size(); i++)
        if (!(x[i] == y[i]))
            return false;
    return true;
}

// The order of the members does not matter.
bool same_members(const Value &x, const Value &y) {
    if (x.size() != y.size())
        return false;
    for (Size i = 0; i < x.size(); i++) {
        const Value *other = y.find(x.key(i));
        if (!other || !(*other == x[i]))
            return false;
    }
    return true;
}

} // namespace

Size Value::index_of(View key) const {
    for (Size i = 0; i < keys_.size(); i++)
        if (keys_[i].view() == key)
            return i;
    return nowhere;
}

const Value *Value::find(View key) const {
    Size i = index_of(key);
    return i == nowhere ? nullptr : &items_[i];
}

Value &Value::set(View key, Value &&v) {
    Size i = index_of(key);
    if (i == nowhere)
        return add(Text(key), take(v));
    return items_[i] = take(v);
}

bool Value::remove(View key) {
    Size i = index_of(key);
    if (i == nowhere)
        return false;
    keys_.remove(i);
    items_.remove(i);
    return true;
}

// A JSON pointer: "" is the value itself, "/a/0" the first element of a.
const Value *Value::at(View pointer) const {
    const Value *v = this;
    while (v && !pointer.empty()) {
        if (pointer[0] != '/')
            return nullptr;
        pointer = pointer.from(1);
        Size end = find_char(pointer, '/');
        v = child(*v, pointer.upto(end));
        pointer = pointer.from(end);
    }
    return v;
}

// Members of the patch replace members here; null removes them.
void Value::merge(const Value &patch) {
    if (!patch.is(Kind::Object)) {
        *this = patch;
        return;
    }
    if (!is(Kind::Object))
        *this = Value(Kind::Object);
    for (Size i = 0; i < patch.size(); i++) {
        View key = patch.key(i);
        if (patch[i].is(Kind::Null))
            remove(key);
        else if (Size at = index_of(key); at != nowhere)
            items_[at].merge(patch[i]);
        else
            add(Text(key), Value()).merge(patch[i]);
    }
}

Size Value::count() const {
    Size n = 1;
    for (const Value &v : items_)
        n += v.count();
    return n;
}

Size Value::depth() const {
    Size deepest = 0;
    for (const Value &v : items_)
        deepest = greater(deepest, v.depth());
    return is_container() ? deepest + 1 : 0;
}

bool operator==(const Value &x, const Value &y) {
    if (!x.is(y.kind()))
        return false;
    switch (x.kind()) {
    case Kind::Number: return x.number() == y.number();
    case Kind::String: return x.text() == y.text();
    case Kind::Array: return same_items(x, y);
    case Kind::Object: return same_members(x, y);
    default: return true;
    }
}

} // namespace json
