"""Proximal policy optimisation: sampled compiles, advantages, clipped updates."""

from mlgo.learn.ppo.loop import PpoState, Sampled, SampledCompile, optimise

__all__ = ["PpoState", "Sampled", "SampledCompile", "optimise"]
