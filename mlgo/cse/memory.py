"""A compiler that is never asked the same thing twice."""

from collections.abc import Mapping, Sequence

from mlgo.cse.problem import CseCompiler, Decisions, Outcome, Unit

Known = Mapping[Decisions | None, Outcome]
"""What is known of a unit, by its decisions."""


class RememberingCompiler:
    """Another compiler, with its outcomes kept: a compile is a pure function of unit and decisions.

    Where the order of decisions does not matter, they are sorted first, so that all orders are one.

    Attributes:
        ordered: as the other's.
        static: as the other's.
        num_asked: compiles asked for.
        num_compiled: of these, done.

    Args:
        compiler: does what is not known.
    """

    def __init__(self, compiler: CseCompiler) -> None:
        self._compiler, self._known = compiler, dict[str, dict[Decisions | None, Outcome]]()
        self.ordered, self.static = compiler.ordered, compiler.static
        self.num_asked = self.num_compiled = 0

    def units(self) -> Sequence[Unit]:
        """As the other's."""
        return self._compiler.units()

    def compile(self, unit: str, decisions: Decisions | None) -> Outcome:
        """As the other's, or remembered."""
        key = decisions if decisions is None or self.ordered else tuple(sorted(decisions))
        known = self._known.setdefault(unit, {})
        self.num_asked += 1
        if key not in known:
            known[key] = self._compiler.compile(unit, key)
            self.num_compiled += 1
        return known[key]

    def known(self, unit: str) -> Known:
        """All that is known of a unit."""
        return self._known.get(unit, {})

    def learn(self, unit: str, known: Known) -> None:
        """Take over what is known elsewhere."""
        self._known.setdefault(unit, {}).update(known)

    def forget(self) -> None:
        """Drop everything."""
        self._known.clear()

    def close(self) -> None:
        """End the other."""
        self._compiler.close()
