"""Evolution strategies: perturbed candidates, a gradient or a model from their rewards, an update."""

from mlgo.learn.es.directions import Coordinates
from mlgo.learn.es.loop import EsState, evolve

__all__ = ["Coordinates", "EsState", "evolve"]
