"""Behavioural cloning: imitate recorded answers."""

from mlgo.learn.bc.loop import CloneData, CloneResult, clone

__all__ = ["CloneData", "CloneResult", "clone"]
