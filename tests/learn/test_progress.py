"""TensorBoard logs: read back by TensorBoard, written without TensorFlow."""

import json
import subprocess
import sys

PROGRAM = """
import json, sys
from pathlib import Path
import numpy as np
from mlgo.learn.progress import TrainingProgress

folder = Path(sys.argv[1])
with TrainingProgress(folder, 2, 0, "step") as board:
    for step in (1, 2):
        board.add_histogram("rewards", np.array([[0.0, 3.0], [1.0, np.nan]]) * step, step)
        board.advance(step, {"mean": 0.5 * step, "skipped": False, "none": None, "count": 3})
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tensorboard.util.tensor_util import make_ndarray
(path,) = folder.iterdir()
found = [
    (value.tag, event.step, value.metadata.plugin_data.plugin_name, make_ndarray(value.tensor).tolist())
    for event in EventFileLoader(str(path)).Load() for value in event.summary.value
]
print(json.dumps({"found": found, "tensorflow": "tensorflow" in sys.modules}))
"""


def test_scalars_and_histograms_come_back(tmp_path):
    run = subprocess.run([sys.executable, "-c", PROGRAM, str(tmp_path)], capture_output=True, text=True, check=True)
    report = json.loads(run.stdout)
    assert not report["tensorflow"]
    found = {(tag, step): (plugin, value) for tag, step, plugin, value in report["found"]}
    assert found.keys() == {(tag, step) for tag in ("rewards", "mean", "count") for step in (1, 2)}
    assert found["mean", 2] == ("scalars", 1.0)
    assert found["count", 1] == ("scalars", 3.0)
    plugin, buckets = found["rewards", 2]
    assert plugin == "histograms"
    assert (buckets[0][0], buckets[-1][1]) == (0.0, 6.0)
    assert [count for *_, count in buckets if count] == [1.0, 1.0, 1.0]
