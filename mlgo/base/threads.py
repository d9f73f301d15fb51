"""One thread in each library's pool: what computes side by side is what our programs start, no more.

A program that may use N cores starts N workers, compiles or fits. If the libraries in each of them also had a thread
per core, N x N would compute. And how a library cuts a sum into parts, and so how it is rounded, must not depend on
the machine. TensorFlow's pools are set where it is imported, ``learn/tensorflow.py``.
"""

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "GOTO_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)
"""What OpenMP and libraries for linear algebra read when they are loaded; PyArrow reads the first one."""


def in_threads(function: Callable[[_Item], _Result], items: Iterable[_Item], num_threads: int) -> Iterator[_Result]:
    """Results for all items in their order, a few ahead of the one that is taken: so few are in memory at a time.

    An error of ``function`` is raised in the place of its result. Then, or if no more is taken, calls that have begun
    are waited for, and no other begins.

    Args:
        num_threads: calls at a time, 1 or greater.
    """
    from concurrent.futures import ThreadPoolExecutor  # here, since programs that only limit threads start without it

    rest, pool = iter(items), ThreadPoolExecutor(num_threads)
    try:
        ahead = deque(pool.submit(function, item) for item in islice(rest, 4 * num_threads))
        while ahead:
            yield ahead.popleft().result()
            ahead.extend(pool.submit(function, item) for item in islice(rest, 1))
    finally:
        pool.shutdown(cancel_futures=True)


def one_thread_each() -> None:
    """Limit the pools of libraries in this process, loaded or not, and in processes that it starts.

    Snakemake sets these variables to the threads of the rule, which is right for a program that calculates in one
    process. Ours pass them on to that many workers.
    """
    os.environ.update(dict.fromkeys(VARIABLES, "1"))
    if "numpy" in sys.modules or "scipy" in sys.modules:  # they have read the variables already
        import threadpoolctl

        threadpoolctl.threadpool_limits(1)
    if "pyarrow" in sys.modules:
        import pyarrow

        pyarrow.set_cpu_count(1)
