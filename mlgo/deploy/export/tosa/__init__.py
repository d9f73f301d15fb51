"""Policies in TOSA, the operators of MLIR: the form, what writes it, and what runs it."""

from mlgo.deploy.export.tosa.form import Tosa, tosa_text

__all__ = ["Tosa", "tosa_text"]
