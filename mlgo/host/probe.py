"""Does this compiler offer a task's interactive channel? Asked of the compiler, never assumed."""

from mlgo.base.config import CompileConfig
from mlgo.base.scratch import scratch_directory
from mlgo.errors import CompileError, ToolchainError
from mlgo.host.log import Header
from mlgo.host.session import compile_under_advice
from mlgo.host.tasks.task import Responder, Task
from mlgo.host.toolchain import Toolchain


class _Zero:
    """Answers every question with zero bytes."""

    def respond_to(self, header: Header) -> Responder:
        assert header.advice is not None
        answer = bytes(header.advice.num_bytes)
        return lambda payload: answer


def probe_channel(toolchain: Toolchain, task: Task, settings: CompileConfig) -> Header:
    """Compile the task's probe under advice and return what the compiler says it will send.

    Raises:
        ToolchainError: the compiler does not take the options, does not open the channel, or asks nothing.
    """
    with scratch_directory() as folder:
        module = folder / "probe.ll"
        module.write_text(task.probe)
        try:
            with_default = task.default is not None
            result = compile_under_advice(toolchain, task, module, _Zero(), settings, with_default=with_default)
        except CompileError as error:
            raise ToolchainError(
                f"{toolchain.name} does not offer the interactive channel of task {task.name} ({error}); "
                "set toolchain: auto, or name a released clang"
            ) from error
    if not result.num_questions or result.header is None:
        raise ToolchainError(f"{toolchain.name} opens the channel of task {task.name} but asks nothing")
    return result.header
