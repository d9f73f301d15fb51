// SPDX-License-Identifier: Apache-2.0
// main.cpp - a fixed document, then a large one made at random: written, parsed, written again.
#include "json.hpp"

extern "C" {
int printf(const char *format, ...);
void *malloc(usize size);
void free(void *memory);
int memcmp(const void *a, const void *b, usize size);
}

namespace {

constexpr usize text_size = 400000, arena_size = 8000000;
constexpr int rounds = 3;

u64 random_state = 8;

u32 next_random() {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<u32>(random_state >> 33);
}

json::text random_text(json::arena &memory) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz \"\\\n\t\x01\xc3\xa4";
    usize size = next_random() % 12 + 1;
    auto *data = static_cast<char *>(memory.take(size));
    for (usize i = 0; data && i < size; ++i)
        data[i] = letters[next_random() % 32];
    return {data, data ? size : 0};
}

json::value *random_value(json::arena &memory, int depth) {
    auto *made = static_cast<json::value *>(memory.take(sizeof(json::value)));
    if (!made)
        return nullptr;
    *made = json::value{json::kind::null, false, 0, {nullptr, 0}, {nullptr, 0}, nullptr, nullptr, 0};
    u32 choice = depth < 2 ? 7 : next_random() % (depth < 6 ? 10 : 6);
    if (choice == 0)
        return made;
    if (choice == 1) {
        made->type = json::kind::boolean;
        made->truth = next_random() % 2;
    } else if (choice < 4) {
        made->type = json::kind::number;
        made->number = (next_random() % 2000000 - 1e6) / (choice == 2 ? 1 : 16);
    } else if (choice < 6) {
        made->type = json::kind::string;
        made->string = random_text(memory);
    } else {
        made->type = choice < 8 ? json::kind::array : json::kind::object;
        made->count = depth < 2 ? 20 : next_random() % 6;
        json::value **link = &made->first;
        for (usize i = 0; i < made->count; ++i) {
            json::value *child = random_value(memory, depth + 1);
            if (!child)
                return nullptr;
            if (made->type == json::kind::object)
                child->name = random_text(memory);
            *link = child;
            link = &child->next;
        }
    }
    return made;
}

struct totals {
    u64 nodes, truths, text_bytes;
    double numbers;
};

void add_up(const json::value *node, totals &sum) {
    ++sum.nodes;
    sum.truths += node->truth;
    sum.numbers += node->number;
    sum.text_bytes += node->string.size + node->name.size;
    for (const json::value *child = node->first; child; child = child->next)
        add_up(child, sum);
}

bool equal(const totals &a, const totals &b) {
    return a.nodes == b.nodes && a.truths == b.truths && a.text_bytes == b.text_bytes && a.numbers == b.numbers;
}

const char fixed[] = R"( { "name" : "Gr\u00fc\u00dfe, \"quoted\"\\", "list" : [1, -2.5, 3e2, 62.5E-2, 0.0625],
  "nested": {"empty": {}, "none": [ ], "deep": [[[null, true, false]]]}, "control": "\u0001\t\n\/" } )";

bool rewrite_fixed(char *out, char *space) {
    json::arena memory(space, arena_size);
    json::value *root = json::parser(memory, fixed, fixed + sizeof fixed - 1).parse();
    if (!root)
        return false;
    json::writer writer(out, text_size);
    writer.write(root);
    printf("%.*s\n", static_cast<int>(writer.size()), out);
    return true;
}

bool refuse(const char *text, usize size, char *space) {
    json::arena memory(space, arena_size);
    return json::parser(memory, text, text + size).parse() == nullptr;
}

bool round_trip(char *first, char *second, char *made_space, char *parsed_space) {
    json::arena memory(made_space, arena_size);
    json::value *made = random_value(memory, 0);
    if (!made)
        return false;
    json::writer writer(first, text_size);
    writer.write(made);
    totals before{0, 0, 0, 0}, after{0, 0, 0, 0};
    add_up(made, before);
    json::arena other(parsed_space, arena_size);
    json::value *parsed = json::parser(other, first, first + writer.size()).parse();
    if (!parsed)
        return false;
    add_up(parsed, after);
    json::writer again(second, text_size);
    again.write(parsed);
    bool same = writer.size() == again.size() && !memcmp(first, second, writer.size()) && equal(before, after);
    printf("%lu bytes, %lu nodes, %lu true, sum %ld/10000, %lu bytes of text, %s\n", writer.size(), after.nodes,
           after.truths, static_cast<i64>(after.numbers * 10000), after.text_bytes, same ? "restored" : "differs");
    return same;
}

} // namespace

int main() {
    auto *first = static_cast<char *>(malloc(text_size)), *second = static_cast<char *>(malloc(text_size));
    auto *made = static_cast<char *>(malloc(arena_size)), *parsed = static_cast<char *>(malloc(arena_size));
    if (!first || !second || !made || !parsed)
        return 1;
    bool good = rewrite_fixed(first, parsed);
    for (usize size = 0; size + 4 < sizeof fixed; ++size) // no part of it is a document
        good = refuse(fixed, size, parsed) && good;
    for (int i = 0; i < rounds; ++i)
        good = round_trip(first, second, made, parsed) && good;
    free(first);
    free(second);
    free(made);
    free(parsed);
    return good ? 0 : 1;
}
