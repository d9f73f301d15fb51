"""Evolution strategies: antithetic perturbations, shaped rewards, Adam."""

from mlgo.learn.es.loop import Coordinates, EsState, evolve

__all__ = ["Coordinates", "EsState", "evolve"]
