"""Corpora: recipes, source distributions, captured builds, bitcode, and the manifest with its splits."""
