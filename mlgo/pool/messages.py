"""How many jobs go to a worker in one message: several where they are short and many, one otherwise.

A message and its answer cost the driver a fifth of a millisecond over a pipe and a whole one over Ray, more than a walk
down a response tree costs the worker. So a worker that does its messages at once gets longer ones. One that is at work
for longer than ``AT_ONCE_S`` answers then and gives back what it has not begun, so that nothing waits behind a long
compile while other workers are free. Towards the end of a batch messages become short again.

Pure arithmetic: pools decide by it, and so does the simulation of clusters.
"""

AT_ONCE_S = 0.05
"""A worker begins no further job of a message after this time, in seconds."""

MOST = 32
"""Jobs in a message."""

_PARTS = 4
"""A worker is given at most one part in so many of its share of what waits."""


def message_size(wanted: int, waiting: int, num_workers: int, more: bool = False) -> int:
    """Jobs to send.

    Args:
        wanted: what the worker has shown that it can do at once.
        waiting: jobs that wait for a worker.
        num_workers: that share them.
        more: whether others take the place of these, so that there is no end to be thought of yet.
    """
    return wanted if more else max(1, min(wanted, waiting // (_PARTS * max(1, num_workers))))


def next_wanted(wanted: int, sent: int, done: int, most: int = MOST) -> int:
    """What a worker can do at once, after one more message.

    Args:
        wanted: what was known so far.
        sent: jobs in the message.
        done: of these, the ones that were done in time.
        most: never more.
    """
    if done < sent:
        return max(1, done)
    return min(most, 2 * wanted) if sent == wanted else wanted
