"""TensorFlow, imported late, quietly and deterministically.

The import costs seconds and half a gigabyte, so it happens inside functions, never in a process that hosts compiles.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mlgo.base.packages import require


def import_tensorflow(threads: int = 1) -> Any:
    """Import TensorFlow for the CPU, with deterministic operations and nothing on stderr.

    One operation uses one thread: how sums are cut into parts, and so how they are rounded, must not depend on the
    machine. Independent fits may run side by side.

    Args:
        threads: operations that run at a time, for a program that fits as many networks side by side. The first
            import of a process decides; without it TensorFlow takes all cores of the machine.
    """
    require("training", "train")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    if "tensorflow" not in sys.modules:  # not by its own setting, which it writes into exported models
        os.environ["TF_NUM_INTEROP_THREADS"] = str(threads)
    with _silent_stderr():
        import tensorflow as tf

        tf.config.list_physical_devices()  # looks for drivers and says so
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.get_logger().setLevel("ERROR")
    tf.config.experimental.enable_op_determinism()
    return tf


@contextmanager
def _silent_stderr() -> Iterator[None]:
    """Silence the process's stderr: the library writes there before it reads its log level."""
    sys.stderr.flush()
    saved, sink = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
