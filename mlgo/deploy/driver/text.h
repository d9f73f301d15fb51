// The little of text and memory that the driver needs; it is linked without C++'s library, which takes a minute to build.
#ifndef MLGO_TEXT_H
#define MLGO_TEXT_H

#include <stdlib.h>
#include <string.h>

inline bool isSame(const char *One, const char *Other) { return strcmp(One, Other) == 0; }

inline bool startsWith(const char *Text, const char *Beginning) {
  return strncmp(Text, Beginning, strlen(Beginning)) == 0;
}

inline bool isAmong(const char *Text, const char *const *Words) {
  for (; *Words; ++Words)
    if (isSame(Text, *Words))
      return true;
  return false;
}

// FNV-1a of 64 bits; `mlgo/deploy/drivers.py` has the same.
struct Hash {
  unsigned long long State = 0xcbf29ce484222325;

  void add(const void *Data, size_t Size) {
    for (size_t I = 0; I < Size; ++I)
      State = (State ^ static_cast<const unsigned char *>(Data)[I]) * 0x100000001b3;
  }
};

// A growing array of plain values.
template <typename T> class List {
public:
  List() = default;
  List(const List &) = delete;
  List(List &&From) : Items(From.Items), Num(From.Num), Room(From.Room) {
    From.Items = nullptr;
    From.Num = From.Room = 0;
  }
  List &operator=(const List &) = delete;
  ~List() { free(Items); }

  void add(const T &Item) { add(&Item, 1); }
  void add(const T *From, size_t Count) {
    if (!Count)
      return;
    if (Num + Count > Room) {
      Room = 2 * (Num + Count);
      Items = static_cast<T *>(realloc(Items, Room * sizeof(T)));
      if (!Items)
        abort();
    }
    memcpy(Items + Num, From, Count * sizeof(T));
    Num += Count;
  }
  void dropFirst(size_t Count) {
    Num -= Count;
    memmove(Items, Items + Count, Num * sizeof(T));
  }
  void clear() { Num = 0; }
  void shrink(size_t Count) { Num = Count; }
  size_t size() const { return Num; }
  bool isSame(const List &Other) const { return Num == Other.Num && memcmp(Items, Other.Items, Num * sizeof(T)) == 0; }
  T *data() const { return Items; }
  T &operator[](size_t Index) const { return Items[Index]; }
  T *begin() const { return Items; }
  T *end() const { return Items + Num; }

private:
  T *Items = nullptr;
  size_t Num = 0, Room = 0;
};

#endif
