"""Tests of the channel in the manner of LLVM's: modules, answers and checks are written here."""

from pathlib import Path

RUN = """\
; REQUIRES: x86_64-linux
; RUN: rm -rf %t.dir && mkdir %t.dir
; RUN: cp %S/../models/log_reader.py %t.dir
; RUN: cp %S/../models/interactive_host.py %S/Inputs/answers.py %t.dir
"""
INLINE = (
    RUN
    + """\
; RUN: %python %t.dir/answers.py %t.channel \\
; RUN:   opt -passes=scc-oz-module-inliner -interactive-model-runner-echo-reply -enable-ml-inliner=release \\
; RUN:   -inliner-interactive-channel-base=%t.channel %s -S -o /dev/null | FileCheck %s
"""
)
MUTUAL = """
; even has five blocks as it stands; the passes of -Oz before the inliner would leave three.
define internal i32 @even(i32 %n) {
entry:
  %z = icmp eq i32 %n, 0
  br i1 %z, label %yes, label %no
yes:
  br label %forward
no:
  %m = sub i32 %n, 1
  %r = call i32 @odd(i32 %m)
  br label %forward
forward:
  %v = phi i32 [ 1, %yes ], [ %r, %no ]
  br label %end
end:
  ret i32 %v
}
define i32 @odd(i32 %n) {
  %r = call i32 @even(i32 %n)
  ret i32 %r
}
"""
INLINE_CHECKS = """
; CHECK: context:
; CHECK-NEXT: observation: 0
; CHECK: callee_basic_block_count: 5
; CHECK: callee_users: 1
; CHECK-NOT: observation: 1
; CHECK: inlining_decision: 1
"""
ANSWERS = """\
import sys
import interactive_host
import log_reader

def answer(values: list[log_reader.TensorValue]):
    names = [value.spec().name for value in values]
    if "mask" in names:
        return list(values[names.index("mask")]).index(1)
    blocks = values[names.index("callee_basic_block_count")]
    assert len(blocks) == 1
    return int(blocks[0] == 5)

interactive_host.run_interactive(sys.argv[1], answer, sys.argv[2:])
"""
PRIORITIES = """\
import sys
import interactive_host

answer = {"low": 0.0, "high": 1000.0, "negative": -1.0}[sys.argv[1].partition("=")[2]]
interactive_host.run_interactive(sys.argv[2], lambda values: answer, sys.argv[3:])
"""


def crowded(name: str) -> str:
    """A function that keeps twenty numbers across a call, more than there are registers for."""
    loads = "\n".join(f"  %a{i} = load volatile i64, ptr %p\n" for i in range(20))
    sums = "\n".join(f"  %s{i + 1} = xor i64 %s{i}, %a{i}\n" for i in range(20))
    uses = "\n".join(f"  store volatile i64 %a{i}, ptr %p\n" for i in range(20))
    return (
        f"define i64 @{name}(ptr %p) {{\n{loads}  %s0 = load i64, ptr %p\n{sums}  call void @g()\n{uses}"
        "  ret i64 %s20\n}\n"
    )


EVICT = (
    RUN
    + """\
; RUN: %python %t.dir/answers.py %t.channel llc -mtriple=x86_64-linux-unknown -regalloc=greedy \\
; RUN:   -regalloc-enable-advisor=release -interactive-model-runner-echo-reply \\
; RUN:   -regalloc-evict-interactive-channel-base=%t.channel %s -o /dev/null 2>%t.err | FileCheck %s
; RUN: cat %t.err | FileCheck %s --check-prefix=ADVICE
; CHECK: context: crowded
; CHECK-NEXT: observation: 0
; CHECK-NEXT: mask: {{[01](,[01])+}}
; CHECK: context: again
; CHECK-NEXT: observation: 0
; ADVICE: index_to_evict: {{[0-9]+}}
declare void @g()
"""
    + crowded("crowded")
    + crowded("again")
)
PRIORITY = (
    RUN.replace("answers.py", "priorities.py")
    + """\
; DEFINE: %{host} = %python %t.dir/priorities.py --priority=
; DEFINE: %{llc} = llc -mtriple=x86_64-linux-unknown -regalloc=greedy \\
; DEFINE:   -regalloc-enable-priority-advisor=release %s
; RUN: %{host}low %t.low %{llc} -regalloc-priority-interactive-channel-base=%t.low -o %t.low.s > /dev/null
; RUN: %{host}low %t.same %{llc} -regalloc-priority-interactive-channel-base=%t.same -o %t.same.s > /dev/null
; RUN: %{host}negative %t.neg %{llc} -regalloc-priority-interactive-channel-base=%t.neg -o %t.neg.s | FileCheck %s
; RUN: cmp %t.low.s %t.same.s
; RUN: not cmp -s %t.low.s %s
; CHECK: context: crowded
; CHECK: li_size
declare void @g()
"""
    + crowded("crowded")
)


def write_tests(folder: Path) -> Path:
    """Make a folder with one test that passes, and the programs that give answers."""
    (folder / "Inputs").mkdir(parents=True)
    (folder / "Inputs" / "answers.py").write_text(ANSWERS)
    (folder / "Inputs" / "priorities.py").write_text(PRIORITIES)
    (folder / "inline.ll").write_text(INLINE + INLINE_CHECKS + MUTUAL)
    return folder
