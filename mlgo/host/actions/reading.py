"""Where features lie in what a compiler sends, and what it takes for an answer."""

from collections.abc import Sequence

import numpy as np

from mlgo.errors import PolicyError
from mlgo.host.log import Header


def answer_dtype(header: Header) -> np.dtype:
    """Dtype of a scalar answer.

    Raises:
        PolicyError: the compiler expects no answer or more than one number.
    """
    if header.advice is None or header.advice.num_elements != 1:
        raise PolicyError("the compiler does not expect a single number as its answer")
    return header.advice.dtype


def check_features(wanted: Sequence[str], offered: Sequence[str], what: str) -> None:
    """Compare a policy's features with what a compiler or a trace offers.

    Raises:
        PolicyError: naming the features that are missing.
    """
    missing = [name for name in wanted if name not in offered]
    if missing:
        raise PolicyError(
            f"{what} lacks {len(missing)} of the policy's features ({', '.join(missing[:5])}); "
            "it was trained for another task or LLVM version, or with another compile.ir2vec "
            "or compile.tell_heuristic"
        )


def record_of(header: Header, features: Sequence[str]) -> np.dtype:
    """Layout of an observation: features by name, where they lie among the compiler's.

    Args:
        header: what the compiler sends.
        features: names.

    Returns:
        A structured dtype of ``header.payload_bytes``; a feature of several numbers is a field of shape [num_elements].

    Raises:
        PolicyError: the compiler does not offer a feature.
    """
    check_features(features, [spec.name for spec in header.features], "the compiler")
    specs = [header.features[header.index(name)] for name in features]
    return np.dtype(
        {
            "names": list(features),
            "formats": [spec.dtype if spec.num_elements == 1 else (spec.dtype, spec.num_elements) for spec in specs],
            "offsets": [header.offset(name) for name in features],
            "itemsize": header.payload_bytes,
        }
    )
