"""Evolution strategies: perturbed candidates, a gradient or a model from their rewards, an update."""

from mlgo.learn.es.coordinates import Coordinates
from mlgo.learn.es.loop import evolve
from mlgo.learn.es.state import EsState

__all__ = ["Coordinates", "EsState", "evolve"]
