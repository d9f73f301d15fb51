// Policy for inline-size: layers of 38, 258, 130, 18, 1.
// SHA-256 of model and provenance: 923560bd4f6a3e6e
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

  int64_t In_sroa_savings[1] = {};
  int64_t In_sroa_losses[1] = {};
  int64_t In_load_elimination[1] = {};
  int64_t In_call_penalty[1] = {};
  int64_t In_call_argument_setup[1] = {};
  int64_t In_load_relative_intrinsic[1] = {};
  int64_t In_lowered_call_arg_setup[1] = {};
  int64_t In_indirect_call_penalty[1] = {};
  int64_t In_jump_table_penalty[1] = {};
  int64_t In_case_cluster_penalty[1] = {};
  int64_t In_switch_default_dest_penalty[1] = {};
  int64_t In_switch_penalty[1] = {};
  int64_t In_unsimplified_common_instructions[1] = {};
  int64_t In_num_loops[1] = {};
  int64_t In_dead_blocks[1] = {};
  int64_t In_simplified_instructions[1] = {};
  int64_t In_constant_args[1] = {};
  int64_t In_constant_offset_ptr_args[1] = {};
  int64_t In_callsite_cost[1] = {};
  int64_t In_cold_cc_penalty[1] = {};
  int64_t In_last_call_to_static_bonus[1] = {};
  int64_t In_is_multiple_blocks[1] = {};
  int64_t In_nested_inlines[1] = {};
  int64_t In_nested_inline_cost_estimate[1] = {};
  int64_t In_threshold[1] = {};
  int64_t In_callee_basic_block_count[1] = {};
  int64_t In_callsite_height[1] = {};
  int64_t In_node_count[1] = {};
  int64_t In_nr_ctant_params[1] = {};
  int64_t In_cost_estimate[1] = {};
  int64_t In_edge_count[1] = {};
  int64_t In_caller_users[1] = {};
  int64_t In_caller_conditionally_executed_blocks[1] = {};
  int64_t In_caller_basic_block_count[1] = {};
  int64_t In_callee_conditionally_executed_blocks[1] = {};
  int64_t In_callee_users[1] = {};
  int64_t In_is_callee_avail_external[1] = {};
  int64_t In_is_caller_avail_external[1] = {};
  int64_t Answer = 0;
};

} // namespace llvm

#endif
