// Policy for inline-size: a decision tree of 6 leaves.
// SHA-256 of model and provenance: 731bff2272eed2cc
// Made by mlgo 0.2.0. Needs nothing but the C library. Names and members are those that LLVM's
// ReleaseModeModelRunner (llvm/include/llvm/Analysis/ReleaseModeModelRunner.h) asks of a model.
#ifndef MLGO_INLINERSIZEMODEL_H
#define MLGO_INLINERSIZEMODEL_H

#include <stdint.h>

namespace llvm {

class InlinerSizeModel {
public:
  // Index of the input "feed_" + feature; -1 for a feature that this model does not look at.
  template <typename Text> int LookupArgIndex(const Text &Name) const { return argument(Name.data(), Name.size()); }
  // Index of the result "fetch_inlining_decision"; -1 for any other name.
  template <typename Text> int LookupResultIndex(const Text &Name) const { return result(Name.data(), Name.size()); }
  // Where the compiler writes an input.
  void *arg_data(int Index);
  // Where it reads the answer.
  void *result_data(int Index) { return Index == 0 ? &Answer : nullptr; }
  // Answers the question that the inputs hold.
  void Run();

private:
  static int argument(const char *Name, unsigned long Size);
  static int result(const char *Name, unsigned long Size);

  int64_t In_cost_estimate[1] = {};
  int64_t In_callee_users[1] = {};
  int64_t Answer = 0;
};

} // namespace llvm

#endif
