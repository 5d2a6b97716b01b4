"""The card of a model, read from its file without the engine."""

from __future__ import annotations

import json
import os

from ..translation import tr

KEY = "geocfm"  # the engine's entry among the metadata of the file
LENGTH_BYTES = 8  # a .safetensors file begins with the length of its header
LARGEST_HEADER = 100_000_000  # bytes, as in the safetensors format


class CheckpointError(Exception):
    """A sentence on why a file is no model of GeoCFM."""


def read_card(path):
    """Give the card of a model: its layers, grid, occurrences, figures and versions."""
    path = os.fspath(path)
    if not os.path.isfile(path):
        raise CheckpointError(
            tr("There is no model at {path}. Choose a .safetensors file.").format(path=path)
        )
    no_model = CheckpointError(
        tr(
            "{path} is no model of GeoCFM, or it is damaged. Choose a .safetensors file that "
            "GeoCFM's training has written."
        ).format(path=path)
    )
    try:
        card = json.loads(_header(path)["__metadata__"][KEY])
        names = [layer["name"] for layer in card["layers"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        raise no_model from None
    if not names or not all(isinstance(name, str) for name in names):
        raise no_model
    return card


def layer_names(card):
    """Give the names of the layers a model asks for, in its order."""
    return [layer["name"] for layer in card["layers"]]


def _header(path):
    size = os.path.getsize(path)
    with open(path, "rb") as file:
        length = int.from_bytes(file.read(LENGTH_BYTES), "little")
        # a file that lies about its length must not make us read gigabytes
        if not 0 < length <= min(LARGEST_HEADER, size - LENGTH_BYTES):
            raise ValueError(length)
        return json.loads(file.read(length).decode("utf-8"))
