"""Labels as a table: which questions a search has answered otherwise, and what that has saved."""

import numpy as np
import pyarrow as pa

from mlgo.base.artifacts import label_schema
from mlgo.evaluate.search import Labels, sizes_of


def label_table(project: str, number: int, labels: Labels) -> pa.Table:
    """Rows of ``artifacts.label_schema`` about the compile of that number; none where functions are not known."""
    names = [spec.name for spec in labels.header.features]
    credit, schema = labels.credit, label_schema(names)
    if credit is None or not labels.flips:
        return schema.empty_table()
    questions = np.concatenate([flipped for flipped, _ in labels.flips])
    lengths, sizes = [len(flipped) for flipped, _ in labels.flips], sizes_of(credit)
    calls = np.bincount(credit.callees, minlength=len(credit.names))
    caller, callee = credit.callers[questions], credit.callees[questions]
    columns = {
        "project": [project] * len(questions),
        "round": np.full(len(questions), number, np.int32),
        "flip": np.repeat(np.arange(len(lengths), dtype=np.int32), lengths),
        "saved": np.repeat([saved for _, saved in labels.flips], lengths),
        "caller_bytes": [sizes.get(name) for name in credit.names[caller].tolist()],
        "callee_bytes": [sizes.get(name) for name in credit.names[callee].tolist()],
        "callee_calls": calls[callee].astype(np.int32),
        **dict(zip(names, labels.header.numbers(labels.observations[questions]).astype(np.int64).T, strict=True)),
        "answer": labels.answers[questions],
    }
    return pa.table(columns, schema)
