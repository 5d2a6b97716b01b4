"""Smooth random fields on any grid, from random numbers that do not depend on the grid."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
# mean square of a cubic B-spline series with unit-variance coefficients, in 1-D
SPLINE_POWER = 151 / 315


@dataclass(frozen=True)
class Lattice:
    """Cubic B-splines over a square of side `side`, knots every `spacing`, on `size` pixels."""

    side: float
    spacing: float
    size: int

    @property
    def nodes(self) -> int:
        """Coefficients along a side."""
        return math.floor(self.side / self.spacing) + 4

    def draw(self, generator: np.random.Generator) -> Array:
        """Coefficients (nodes, nodes) of a field with mean 0 and variance 1."""
        return generator.standard_normal((self.nodes, self.nodes)) / SPLINE_POWER

    def field(self, coefficients: Array) -> Array:
        """The field (size, size) at the pixel centres."""
        basis, _ = _basis(self)
        return basis @ coefficients @ basis.T

    def slopes(self, coefficients: Array) -> tuple[Array, Array]:
        """Its exact derivatives along x (columns) and y (rows), each (size, size)."""
        basis, derivative = _basis(self)
        return basis @ coefficients @ derivative.T, derivative @ coefficients @ basis.T


@lru_cache(maxsize=16)
def _basis(lattice: Lattice) -> tuple[Array, Array]:
    """Values and derivatives (size, nodes) of every B-spline at the pixel centres."""
    position = (np.arange(lattice.size) + 0.5) * lattice.side / lattice.size / lattice.spacing
    knot = np.floor(position).astype(int)
    u = position - knot
    values = np.stack(
        [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3], axis=1
    )
    slopes = np.stack([-3 * (1 - u) ** 2, 9 * u**2 - 12 * u, -9 * u**2 + 6 * u + 3, 3 * u**2], 1)
    basis, derivative = np.zeros((2, lattice.size, lattice.nodes))
    pixel = np.arange(lattice.size)[:, None]
    basis[pixel, knot[:, None] + np.arange(4)] = values / 6
    derivative[pixel, knot[:, None] + np.arange(4)] = slopes / 6 / lattice.spacing
    return basis, derivative
