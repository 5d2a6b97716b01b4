"""Runs: what the panel asks for, done in the background one after another, and remembered."""

from .run import Run, unfinished_model

__all__ = ["Run", "unfinished_model"]
