"""A compiler that is never asked the same thing twice."""

from collections.abc import Mapping, Sequence

from mlgo.problems.subset.compiler import CseCompiler, Decisions, Outcome, Request, Unit

Known = Mapping[Decisions | None, Outcome]
"""What is known of a unit, by its decisions."""


class RememberingCompiler:
    """Another compiler, with its outcomes kept: a compile is a pure function of unit and decisions.

    Where the order of decisions does not matter, they are sorted first, so that all orders are one.

    Attributes:
        ordered: as the other's.
        static: as the other's.
        num_asked: compiles asked for.
        num_compiles: compiles that were done for that.

    Args:
        compiler: does what is not known.
    """

    def __init__(self, compiler: CseCompiler) -> None:
        self._compiler, self._known = compiler, dict[str, dict[Decisions | None, Outcome]]()
        self.ordered, self.static = compiler.ordered, compiler.static
        self.num_asked = 0

    @property
    def num_compiles(self) -> int:
        """See the class."""
        return self._compiler.num_compiles

    def units(self) -> Sequence[Unit]:
        """As the other's."""
        return self._compiler.units()

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """As the other's, or remembered."""
        return self.compile_many([(unit, decisions)])[0]

    def compile_many(self, requests: Sequence[Request]) -> list[Outcome]:
        """As the other's, or remembered."""
        keys = [(unit, self._key(decisions)) for unit, decisions in requests]
        self.num_asked += len(keys)
        unknown = [one for one in dict.fromkeys(keys) if one[1] not in self._known.setdefault(one[0], {})]
        for (unit, key), outcome in zip(unknown, self._compiler.compile_many(unknown), strict=True):
            self._known[unit][key] = outcome
        return [self._known[unit][key] for unit, key in keys]

    def known(self, unit: str) -> Known:
        """All that is known of a unit."""
        return self._known.get(unit, {})

    def learn(self, unit: str, known: Known) -> None:
        """Take over what is known elsewhere."""
        self._known.setdefault(unit, {}).update(known)

    def forget(self) -> None:
        """Drop everything."""
        self._known.clear()
        self._compiler.forget()

    def _key(self, decisions: Decisions | None) -> Decisions | None:
        return decisions if decisions is None or self.ordered else tuple(sorted(decisions))

    def close(self) -> None:
        """End the other."""
        self._compiler.close()
