"""The parameters of the synthetic benchmark, which the paper does not give.

They are chosen so that the rows that learn nothing, Uniform and Global KDE, come near the paper's
while deposits still gather on arcs of some rings. Their F@5 stays below the paper's: wider rings,
or more active ones, raise it, but lower the Top-5 % of all that can be known, or the Chamfer
distance. docs/benchmarks.md has the figures.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from geocfm.data.synthetic_fields import Lattice

REFERENCE_SIZE = 220  # pixels, and
REFERENCE_BODIES = 5  # bodies, for which one unit is one pixel


@dataclass(frozen=True)
class SyntheticSettings:
    """Every parameter of the generator. Lengths are in units, angles in radians."""

    size: int = REFERENCE_SIZE  # pixels along a side
    bodies: int = REFERENCE_BODIES  # M, intrusive bodies
    deposits: int = 500  # N, occurrences

    # bodies
    half_length: tuple[float, float] = (30.0, 44.0)  # of the ellipses, where there is room
    axis_ratio: tuple[float, float] = (0.6, 0.95)  # width / length
    margin: float = 15.0  # from the border to a body, at least
    gap: float = 3.0  # between two bodies, at least
    amplitude_nt: tuple[float, float] = (150.0, 350.0)  # of the magnetic anomaly
    share_of_lows: float = 0.3  # bodies that are less magnetic than their host rock
    contact_depth: float = 2.5  # of the buried contacts: half the width of their rings
    reach: float = 30.0  # from the contact to where a body's field and its ring end
    # magnetics
    trend_spacing: float = 110.0  # of the knots of the regional trend
    trend_nt: float = 80.0  # its standard deviation
    magnetic_noise_nt: float = 15.0  # per pixel
    # arcs of the rings
    arcs: tuple[int, int] = (1, 2)  # per ring
    arc_half_width: tuple[float, float] = (0.5, 1.0)  # where enrichment has fallen to a half
    arc_edge: float = 0.15  # how gradually it does, as a difference of cosines
    halo_width: float = 12.0  # standard deviation of the enrichment across the ring
    # geochemistry; backgrounds have standard deviation 1, and the rest is measured by it
    background_spacing: float = 80.0  # of the knots; rings nearby tend to be active together
    background_correlation: float = 0.6  # rho, between the backgrounds of s and t
    enrichment: float = 2.0  # mean amplitude along the arcs
    enrichment_spread: float = 0.3  # standard deviation of its logarithm
    enrichment_correlation: float = 0.6  # between the amplitudes of s and t, as logarithms
    geochemistry_noise: float = 0.3  # per pixel, of the observed t
    # activation: the mean of (s + t) / 2 over the contact, plus noise, exceeds the threshold
    activation_threshold: float = 1.2
    activation_noise: float = 0.3  # its standard deviation
    # intensity, Eq. (9)
    alpha: float = 0.4
    beta: float = 0.4
    gamma: float = 0.15

    @property
    def side(self) -> float:
        """Of the image, in units."""
        return REFERENCE_SIZE * math.sqrt(self.bodies / REFERENCE_BODIES)

    @property
    def unit(self) -> float:
        """Pixels per unit of length."""
        return self.size / self.side

    @property
    def background(self) -> Lattice:
        """Of the geochemical backgrounds."""
        return Lattice(self.side, self.background_spacing, self.size)

    @property
    def trend(self) -> Lattice:
        """Of the magnetic trend."""
        return Lattice(self.side, self.trend_spacing, self.size)
