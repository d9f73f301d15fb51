"""Modules that ship: whole programs merged into one module, and ThinLTO's modules after import."""
