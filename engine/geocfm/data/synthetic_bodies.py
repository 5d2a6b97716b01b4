"""Elliptical intrusive bodies of the synthetic benchmark, and the rings of their contacts."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from geocfm.data.synthetic_fields import Array
from geocfm.data.synthetic_settings import SyntheticSettings

CANDIDATES = 200  # centres tried before a body is made smaller
SHRINK = 0.9
HALO_REACH = 3.0  # halo widths; beyond them 1 % of the enrichment is left


@dataclass(frozen=True)
class Body:
    """An ellipse; lengths in units, x to the right and y down, angles in radians."""

    centre: tuple[float, float]
    axes: tuple[float, float]  # half the length, half the width
    angle: float  # of the long axis from x
    amplitude: float  # nT, negative for a magnetic low
    arcs: tuple[tuple[float, float], ...]  # of its ring: angle of the centre, half width

    @property
    def radius(self) -> float:
        """Of the circle with the same area."""
        return math.sqrt(self.axes[0] * self.axes[1])


@dataclass(frozen=True)
class Ring:
    """The surroundings of a body on the pixel grid, (h, w) pixels at rows and columns."""

    rows: slice
    columns: slice
    field: Array  # its share of the magnetic field, nT
    slope_x: Array  # derivatives of that, nT per unit
    slope_y: Array
    slope: Array  # their length, faded out towards the end of its reach
    arcs: Array  # enrichment along the arcs, 1 at the centre of an arc

    @property
    def window(self) -> tuple[slice, slice]:
        """Where it lies in the image."""
        return self.rows, self.columns


def draw_bodies(settings: SyntheticSettings, generator: np.random.Generator) -> tuple[Body, ...]:
    """Bodies that do not overlap; where there is no room left, a body shrinks until it fits."""
    bodies: list[Body] = []
    for _ in range(settings.bodies):
        length = generator.uniform(*settings.half_length)
        axes = (length, length * generator.uniform(*settings.axis_ratio))
        angle = generator.uniform(0, math.pi)
        sign = -1.0 if generator.random() < settings.share_of_lows else 1.0
        amplitude = sign * generator.uniform(*settings.amplitude_nt)
        count = int(generator.integers(settings.arcs[0], settings.arcs[1], endpoint=True))
        arcs = tuple(
            (generator.uniform(0, 2 * math.pi), generator.uniform(*settings.arc_half_width))
            for _ in range(count)
        )
        gap = settings.gap
        centre = None
        while centre is None:
            inset = settings.margin + _extent(axes, angle, np.array([0, math.pi / 2]))
            inset = np.minimum(inset, settings.side / 2)
            candidates = generator.uniform(inset, settings.side - inset, (CANDIDATES, 2))
            centre = _first_free(candidates, axes, angle, bodies, gap)
            if centre is None:
                axes, gap = (axes[0] * SHRINK, axes[1] * SHRINK), gap * SHRINK
        bodies.append(Body(centre, axes, angle, amplitude, arcs))
    return tuple(bodies)


def _first_free(
    candidates: Array, axes: tuple[float, float], angle: float, bodies: list[Body], gap: float
) -> tuple[float, float] | None:
    """The first centre from which an ellipse touches no other.

    Two ellipses are apart if their extents along the line between the centres are.
    """
    free = np.ones(len(candidates), bool)
    for other in bodies:
        away = candidates - other.centre
        distance = np.hypot(*away.T)
        direction = np.arctan2(away[:, 1], away[:, 0])
        reach = _extent(axes, angle, direction) + _extent(other.axes, other.angle, direction)
        free &= distance > reach + gap
    if not free.any():
        return None
    x, y = candidates[int(np.argmax(free))]
    return float(x), float(y)


def _extent(axes: tuple[float, float], angle: float, direction: Array) -> Array:
    """How far an ellipse reaches from its centre along a direction."""
    return np.hypot(axes[0] * np.cos(direction - angle), axes[1] * np.sin(direction - angle))


def draw_ring(body: Body, settings: SyntheticSettings) -> Ring:
    """Put a body on the pixel grid: its field, the exact slopes of that, and enriched arcs."""
    depth, reach = settings.contact_depth, settings.reach
    grown = 1 + max(reach, HALO_REACH * settings.halo_width) / body.radius
    columns, x = _pixels(body.centre[0], body.axes, body.angle, grown, settings)
    rows, y = _pixels(body.centre[1], body.axes, body.angle - math.pi / 2, grown, settings)
    x, y = x[None, :] - body.centre[0], y[:, None] - body.centre[1]
    cos, sin = math.cos(body.angle), math.sin(body.angle)
    u = (cos * x + sin * y) / body.axes[0]
    v = (cos * y - sin * x) / body.axes[1]
    r = np.maximum(np.sqrt(u * u + v * v), 1e-9)
    outward = (r - 1) * body.radius  # about the distance from the contact, in units
    # the field across a contact buried at a depth is an arc tangent, its slope a Lorentzian
    far = math.atan(reach / depth)
    scale = body.amplitude / (far + math.pi / 2)
    field = scale * np.maximum(far - np.arctan(outward / depth), 0)
    fall = (-scale * body.radius / depth) * (outward < reach) / (r + r * (outward / depth) ** 2)
    u_slope, v_slope = fall * u / body.axes[0], fall * v / body.axes[1]
    fading = np.maximum(1 - (outward / reach) ** 2, 0)
    arcs = np.zeros_like(r)
    for centre, half_width in body.arcs:
        cosine = (u * math.cos(centre) + v * math.sin(centre)) / r
        arcs += _flat_top((cosine - math.cos(half_width)) / settings.arc_edge)
    return Ring(
        rows,
        columns,
        field,
        cos * u_slope - sin * v_slope,
        sin * u_slope + cos * v_slope,
        np.sqrt(u_slope * u_slope + v_slope * v_slope) * fading,
        arcs * np.exp(-0.5 * (outward / settings.halo_width) ** 2),
    )


def _flat_top(inward: Array) -> Array:
    """From 0 outside to 1 inside."""
    return 1 / (1 + np.exp(-inward))


def _pixels(
    centre: float,
    axes: tuple[float, float],
    angle: float,
    grown: float,
    settings: SyntheticSettings,
) -> tuple[slice, Array]:
    """The pixels along one side of an ellipse grown by a factor, and their centres in units."""
    half = grown * math.hypot(axes[0] * math.cos(angle), axes[1] * math.sin(angle))
    first = max(math.floor((centre - half) * settings.unit), 0)
    last = min(math.ceil((centre + half) * settings.unit), settings.size)
    return slice(first, last), (np.arange(first, last, dtype=np.float64) + 0.5) / settings.unit
