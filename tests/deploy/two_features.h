// A model with the inputs `a` and `b`, whose answer is their exclusive or; it is used as one that clang is built with.
#pragma once

#include <stdint.h>
#include <string.h>

struct Model {
  uint64_t In[2], Out = 0;
  template <typename Text> int LookupArgIndex(const Text &Name) const {
    return Name.size() == 6 && memcmp(Name.data(), "feed_a", 6) == 0   ? 0
           : Name.size() == 6 && memcmp(Name.data(), "feed_b", 6) == 0 ? 1
                                                                       : -1;
  }
  template <typename Text> int LookupResultIndex(const Text &) const { return 0; }
  void *arg_data(int Index) { return In + Index; }
  void *result_data(int) { return &Out; }
  void Run() { Out = In[0] ^ In[1]; }
};
