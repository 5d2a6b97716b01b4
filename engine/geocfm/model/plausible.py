"""What a card may say: a model may come from a stranger, and its card tells how much to make."""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from geocfm.model.settings import SMALLEST_WINDOW

if TYPE_CHECKING:
    from geocfm.model.checkpoint import ModelCard

LARGEST_WINDOW = 2**14  # cells
# far beyond what training writes
LONGEST_CARD = 2**23  # characters
LONGEST_TEXT = 20_000  # of these in one of its texts, such as a CRS
LONGEST_NAME = 1000
DEEPEST_CARD = 20  # tables within tables
MOST_LAYERS = 1000
MOST_CLASSES = 1000  # of a layer; training keeps the 32 most frequent
MOST_MEMBERS = 100
MOST_ENTRIES = 100
MOST_CELLS = 10**12  # of the grid
LARGEST_CODE = 2**63
LARGEST_VALUE = 3.5e38  # of a layer, which is read in single precision
LARGEST_WEIGHT = 1e12

PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


def read_json(text: str) -> Any:
    """What a card's text holds; a ValueError says that it can be none, before it costs anything."""
    if len(text) > LONGEST_CARD:
        raise ValueError("it is too long")
    depth = 0
    for piece in PIECES.findall(text):
        depth += (piece in "[{") - (piece in "]}")
        if depth > DEEPEST_CARD or len(piece) > LONGEST_TEXT:
            raise ValueError("it is nested too deeply, or a text of it is too long")
    return json.loads(text)


def impossible(card: ModelCard) -> str:
    """What a card says that no training writes; empty if nothing."""
    names = [layer.name for layer in card.layers]
    a, b, _, d, e, _ = card.grid.transform
    edges = (card.split.row_edges, card.split.col_edges)
    shape = tuple(len(numbers) - 1 for numbers in edges)
    texts = (*names, *(layer.units for layer in card.layers))
    codes = [code for layer in card.layers for code in layer.classes]
    counts = (card.seed, card.iterations, *card.occurrences.counts.values())
    found = {
        "no layers": not names or not card.channels,
        f"{len(names):,} layers": len(names) > MOST_LAYERS,
        "two layers of one name": len(set(names)) < len(names),
        "layers without statistics": not all(
            abs(layer.mean) <= LARGEST_VALUE and 0 <= layer.std <= LARGEST_VALUE
            for layer in card.layers
        ),
        "classes that no layer has": max(map(abs, codes), default=0) >= LARGEST_CODE
        or any(not _distinct(layer.classes) for layer in card.layers),
        f"{1 + len(card.others):,} networks": len(card.others) >= MOST_MEMBERS,
        "lists without end": max(
            map(len, (card.metrics, card.occurrences.where, card.occurrences.counts, card.versions))
        )
        > MOST_ENTRIES,
        "names that are whole books": max(map(len, texts), default=0) > LONGEST_NAME,
        "counts below 0 or without end": not all(0 <= count < LARGEST_CODE for count in counts),
        f"windows of {card.window_size} cells": not SMALLEST_WINDOW
        <= card.window_size
        <= LARGEST_WINDOW,
        "a grid without extent": min(card.grid.height, card.grid.width) < 1
        or not all(map(math.isfinite, card.grid.transform))
        or a * e == b * d,
        "a grid without end": card.grid.height * card.grid.width > MOST_CELLS,
        "tiles that do not fit together": min(shape) < 1
        or any(low >= high for side in edges for low, high in pairwise(side))
        or tuple(map(len, card.split.roles)) != (shape[1],) * shape[0],
    }
    told = next((what for what, is_so in found.items() if is_so), "")
    if not told and any(
        side[0] < 0 or side[-1] > cells
        for side, cells in zip(edges, (card.grid.height, card.grid.width), strict=True)
    ):
        return "tiles beyond its grid"
    return told


def _distinct(classes: tuple[int, ...]) -> bool:
    return len(classes) <= MOST_CLASSES and len(set(classes)) == len(classes)


def are_sound(weights: dict[str, torch.Tensor]) -> bool:
    """Whether all are numbers, of a size with which one can reckon."""
    # through the smallest and the largest: NaN passes no comparison
    return all(
        not tensor.numel() or bool(tensor.abs().max() <= LARGEST_WEIGHT)
        for tensor in weights.values()
    )
