"""What a decision problem consists of, and what answers it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np

from mlgo.wire.log import Header

Responder = Callable[[bytes], bytes]
"""Maps one observation's raw tensors to the raw answer."""


class Advisor(Protocol):
    """Something that can answer a compiler's questions: a policy, a constant, the echo of the default."""

    def respond_to(self, header: Header) -> Responder:
        """Bind to what this compiler sends; called once per compile, before the first question.

        Raises:
            PolicyError: the advisor needs a feature that the header lacks, or another kind of answer.
        """
        ...


Decide = Callable[[np.ndarray], np.ndarray]
"""Maps raw observations, uint8 [num, payload_bytes], to answers, int64 [num]."""


@runtime_checkable
class PureAdvisor(Advisor, Protocol):
    """An advisor whose answer depends on the observation alone, so that known questions need no compiler."""

    def decide_for(self, header: Header) -> Decide:
        """The same answers as `respond_to` gives, for many observations at once.

        Raises:
            PolicyError: as `respond_to`.
        """
        ...


@dataclass(frozen=True)
class Remark:
    """Something the compiler can be made to report on stderr.

    Attributes:
        flags: options that make it report.
        marker: text that occurs once in each report.
    """

    flags: tuple[str, ...]
    marker: bytes


@dataclass(frozen=True)
class Task:
    """A decision problem that a stock compiler hands out.

    Attributes:
        name: as in the configuration.
        mode_flags: options that make the compiler ask, without the channel.
        channel_option: option that takes the channel's base path, ending in ``=``.
        default_flags: options that add the heuristic's own decision as a feature.
        default_feature: name of that feature.
        decision: name of the answer tensor.
        size_stop_option: option that takes the factor of growth at which the compiler stops asking.
        stop_remark: reported when it has stopped asking.
        done_remark: reported for each change made, whether by advice or by the built-in heuristic.
    """

    name: str
    mode_flags: tuple[str, ...]
    channel_option: str
    default_flags: tuple[str, ...]
    default_feature: str
    decision: str
    size_stop_option: str
    stop_remark: Remark
    done_remark: Remark

    def flags(self, channel_base: Path, size_stop_factor: float, *, with_default: bool) -> list[str]:
        """Compiler options for one compile under advice, without remarks."""
        options = [
            *self.mode_flags,
            f"{self.channel_option}{channel_base}",
            f"{self.size_stop_option}{size_stop_factor:g}",
            *(self.default_flags if with_default else ()),
        ]
        return [part for option in options for part in ("-mllvm", option)]
