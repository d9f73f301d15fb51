// Weights and arithmetic of InlinerSizeModel.h.
#include "InlinerSizeModel.h"

#include <math.h>
#include <string.h>

namespace {

struct Name {
  const char *Text;
  unsigned long Size;
};

const Name Inputs[] = {
    {"feed_cost_estimate", 18},
    {"feed_callee_users", 17},
};
const Name Result = {"fetch_inlining_decision", 23};

bool isSame(const Name &One, const char *Text, unsigned long Size) {
  return One.Size == Size && memcmp(One.Text, Text, Size) == 0;
}

namespace policy {

// Above 0 is yes, below is no; the further from 0, the surer.
float logit(int64_t cost_estimate, int64_t callee_users) {
  if (cost_estimate <= 7) {
    if (cost_estimate <= 2)
      return 5.83f; // leaf 0
    if (callee_users <= 5)
      return 1.87f; // leaf 1
    return -2.52f; // leaf 2
  }
  if (callee_users > 3)
    return -7.4f; // leaf 5
  if (cost_estimate <= 97)
    return 1.35f; // leaf 3
  return -3.41f; // leaf 4
}

} // namespace policy

} // namespace

namespace llvm {

int InlinerSizeModel::argument(const char *Text, unsigned long Size) {
  for (int I = 0; I < 2; ++I)
    if (isSame(Inputs[I], Text, Size))
      return I;
  return -1;
}

int InlinerSizeModel::result(const char *Text, unsigned long Size) { return isSame(Result, Text, Size) ? 0 : -1; }

void *InlinerSizeModel::arg_data(int Index) {
  switch (Index) {
  case 0:
    return In_cost_estimate;
  case 1:
    return In_callee_users;
  }
  return nullptr;
}

void InlinerSizeModel::Run() {
  using namespace policy;
  Answer = logit(In_cost_estimate[0], In_callee_users[0]) > 0.0f;
}

} // namespace llvm
