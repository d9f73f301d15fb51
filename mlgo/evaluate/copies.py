"""Which modules of a project carry the same COMDAT groups: of what they carry together, the program has one copy."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlgo.base.files import content_hash
from mlgo.objects.comdat import comdat_groups


@dataclass(frozen=True)
class Copies:
    """Carriers of COMDAT groups, by project.

    Attributes:
        num_copies: modules that carry a group, by signature, by project; only groups that several carry.
    """

    num_copies: Mapping[str, Mapping[bytes, int]]

    def of(self, module: str) -> Mapping[bytes, int]:
        """Carriers of groups in the project of a module, given by its key."""
        return self.num_copies.get(module.partition("/")[0], {})

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"project": project, "signature": signature, "num_modules": copies}
            for project, groups in self.num_copies.items()
            for signature, copies in groups.items()
        ]

    @property
    def sha256(self) -> str:
        """Hash of all that is known."""
        return content_hash(
            {
                project: sorted((signature.hex(), copies) for signature, copies in groups.items())
                for project, groups in self.num_copies.items()
            }
        )


def count_copies(objects: Iterable[bytes]) -> dict[bytes, int]:
    """Count the objects of a project that carry each COMDAT group; only groups that several carry, by signature."""
    carriers = Counter(signature for data in objects for signature in {name for name, _ in comdat_groups(data)})
    return {signature: copies for signature, copies in sorted(carriers.items()) if copies > 1}
