"""The eight turns and mirrors of a square window, which its points follow."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

SYMMETRIES = 8

Pixel = TypeVar("Pixel", bound=np.generic)


def turn_image(image: NDArray[Pixel], symmetry: int) -> NDArray[Pixel]:
    """(..., P, P): mirrored left to right if symmetry >= 4, then quarter turns."""
    mirrored = image[..., ::-1] if symmetry >= 4 else image
    return np.rot90(mirrored, symmetry % 4, axes=(-2, -1))


def turn_points(points: NDArray[np.float64], symmetry: int) -> NDArray[np.float64]:
    """(N, 2) as (x, y) in [0, 1]^2, moved as ``turn_image`` moves the pixels under them."""
    x, y = points[:, 0], points[:, 1]
    if symmetry >= 4:
        x = 1 - x
    for _ in range(symmetry % 4):
        x, y = y, 1 - x
    return np.stack([x, y], axis=1)
