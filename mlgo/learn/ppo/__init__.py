"""Proximal policy optimisation: sampled compiles, advantages, clipped updates."""

from mlgo.learn.ppo.loop import PpoState, Sampled, optimise

__all__ = ["PpoState", "Sampled", "optimise"]
