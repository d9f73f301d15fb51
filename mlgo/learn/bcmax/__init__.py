"""BC-Max: cloning of the best known trajectory of each module, again and again."""

from mlgo.learn.bcmax.best import Trajectory
from mlgo.learn.bcmax.loop import BCMaxState, imitate_best

__all__ = ["BCMaxState", "Trajectory", "imitate_best"]
