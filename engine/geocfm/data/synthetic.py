"""The synthetic magnetics-geochemistry benchmark (paper, section 5.1 and appendix C).

Rings of magnetic contacts are seen, but a latent geochemistry decides which of them are
mineralised and where. All lengths are in units that follow the size of the image and the number
of bodies: another size shows the same geology, and more bodies make a larger region.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.image import Image
from geocfm.data.synthetic_bodies import Body, Ring, draw_bodies, draw_ring
from geocfm.data.synthetic_fields import Array
from geocfm.data.synthetic_settings import SyntheticSettings

__all__ = [
    "TEST_SEEDS",
    "VALIDATION_SEEDS",
    "Posterior",
    "SyntheticImage",
    "SyntheticSettings",
    "make_image",
    "posterior_density",
]

VALIDATION_SEEDS = range(800000, 800016)  # the paper's
TEST_SEEDS = range(900000, 900050)
ACTIVATIONS = 64  # redrawn for each redrawn s: they cost next to nothing
BLOCK = 2**19  # numbers held at a time while redrawing
MOST_JUDGED = 2**14  # deposits that tell the error of their mean logarithm
POSTERIOR = 1  # marks the random numbers of redraws: none of them is one of an image's own
_Redrawn = tuple[Array, Array]


@dataclass(frozen=True)
class Contact:
    """The ring e_m of one body on the pixel grid, (h, w) pixels at rows and columns."""

    rows: slice
    columns: slice
    zone: Array  # e_m, at most 1 and 0 off the contact
    arcs: Array  # enrichment along its arcs, per unit of amplitude

    @property
    def window(self) -> tuple[slice, slice]:
        """Where it lies in the image."""
        return self.rows, self.columns

    def arcs_at(self, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> Array:
        """The enrichment at K pixels of the image, (K,); 0 beyond these."""
        i, j = rows - self.rows.start, columns - self.columns.start
        height, width = self.arcs.shape
        here = (i >= 0) & (i < height) & (j >= 0) & (j < width)
        found = np.zeros(len(rows))
        found[here] = self.arcs[i[here], j[here]]
        return found


@dataclass(frozen=True)
class SyntheticImage:
    """One image: what is observed, what is latent, and what lies between. Fields are (H, W)."""

    settings: SyntheticSettings
    magnetics: Array  # d, observed: with noise, mean 0 and standard deviation 1
    geochemistry: Array  # t, observed, likewise
    clean_magnetics: Array  # nT
    clean_geochemistry: Array  # t of Eq. (9)
    background: Array  # of the clean t, without the arcs
    bodies: tuple[Body, ...]
    contacts: tuple[Contact, ...]
    enrichment: Array  # (M,) standard normal; the amplitude of t along the arcs follows from it
    latent: Array  # s
    active: NDArray[np.bool_]  # (M,)
    density: Array  # pi of Eq. (9), per pixel; sums to 1
    points: Array  # (N, 2) deposits as (column, row) in pixels

    def image(self) -> Image:
        """What a method sees: the channels d and t, and the deposits."""
        channels = np.stack([self.magnetics, self.geochemistry]).astype(np.float32)
        return Image(channels, np.ones(self.density.shape, bool), self.points)


def make_image(settings: SyntheticSettings, seed: int | tuple[int, int]) -> SyntheticImage:
    """The image of a seed; a pair (run, index) never gives that of a single number."""
    # zeros at the end of a seed change nothing, so pairs are marked by a 1
    geometry, trend, observed, hidden, noise, places = _streams(
        seed if isinstance(seed, int) else [*seed, 1], 6
    )

    bodies = draw_bodies(settings, geometry)
    rings = [draw_ring(body, settings) for body in bodies]
    magnetics, contacts = _magnetics(settings, rings, trend)

    background = settings.background.field(settings.background.draw(observed))
    enrichment = observed.standard_normal(settings.bodies)
    geochemistry = background.copy()
    for contact, amplitude in zip(contacts, _amplitudes(settings, enrichment), strict=True):
        geochemistry[contact.window] += amplitude * contact.arcs

    latent = _latent(settings, background, enrichment, contacts, hidden)
    scores = [
        np.average(
            (latent[contact.window] + geochemistry[contact.window]) / 2, weights=contact.zone
        )
        for contact in contacts
    ]
    active = _activate(settings, np.array(scores), hidden)
    density = _density(settings, contacts, active, latent, geochemistry)
    shape = magnetics.shape
    return SyntheticImage(
        settings,
        _standardised(magnetics + settings.magnetic_noise_nt * noise.standard_normal(shape)),
        _standardised(geochemistry + settings.geochemistry_noise * noise.standard_normal(shape)),
        magnetics,
        geochemistry,
        background,
        bodies,
        contacts,
        enrichment,
        latent,
        active,
        density,
        _draw_points(density, settings.deposits, places),
    )


def _streams(seed: int | list[int], count: int) -> list[np.random.Generator]:
    """Independent random numbers for each part, so that no part depends on another's size."""
    return [np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(count)]


def _magnetics(
    settings: SyntheticSettings, rings: list[Ring], generator: np.random.Generator
) -> tuple[Array, tuple[Contact, ...]]:
    """The clean field, and e_m = ContactZone(|grad d_clean|, b_m): a body's share of its slope."""
    coefficients = settings.trend_nt * settings.trend.draw(generator)
    field = settings.trend.field(coefficients)
    slope_x, slope_y = settings.trend.slopes(coefficients)
    parts = np.hypot(slope_x, slope_y)  # the slopes of trend and bodies, had they all one direction
    for ring in rings:
        field[ring.window] += ring.field
        slope_x[ring.window] += ring.slope_x
        slope_y[ring.window] += ring.slope_y
        parts[ring.window] += ring.slope
    steep = np.hypot(slope_x, slope_y)
    contacts = []
    for ring in rings:
        zone = steep[ring.window] * ring.slope / parts[ring.window]
        contacts.append(Contact(ring.rows, ring.columns, zone / zone.max(), ring.arcs))
    return field, tuple(contacts)


def _amplitudes(settings: SyntheticSettings, normal: Array) -> Array:
    """Enrichment, log-normal about its mean, from standard normal numbers."""
    spread = settings.enrichment_spread
    return settings.enrichment * np.exp(spread * normal - spread**2 / 2)


def _latent_amplitudes(settings: SyntheticSettings, enrichment: Array, own: Array) -> Array:
    """Those of s (..., M), given the numbers that those of t follow from."""
    return _amplitudes(settings, _correlated(settings.enrichment_correlation, enrichment, own))


def _correlated(correlation: float, known: Array, own: Array) -> Array:
    return correlation * known + math.sqrt(1 - correlation**2) * own


def _latent(
    settings: SyntheticSettings,
    background: Array,
    enrichment: Array,
    contacts: tuple[Contact, ...],
    generator: np.random.Generator,
) -> Array:
    """The latent s (H, W), given what it shares with t."""
    own = settings.background.field(settings.background.draw(generator))
    field = _correlated(settings.background_correlation, background, own)
    amplitudes = _latent_amplitudes(
        settings, enrichment, generator.standard_normal(settings.bodies)
    )
    for contact, amplitude in zip(contacts, amplitudes, strict=True):
        field[contact.window] += amplitude * contact.arcs
    return field


def _activate(
    settings: SyntheticSettings, scores: Array, generator: np.random.Generator
) -> NDArray[np.bool_]:
    """Which bodies are mineralised, given scores (..., M); the best one always is."""
    noisy = scores + settings.activation_noise * generator.standard_normal(scores.shape)
    best = noisy == noisy.max(axis=-1, keepdims=True)
    return (noisy > settings.activation_threshold) | best


def _favour(settings: SyntheticSettings, s: Array, t: Array) -> Array:
    """What the geochemistry contributes to the intensity of Eq. (9)."""
    return np.exp(settings.alpha * s + settings.beta * t - settings.gamma * np.abs(s - t))


def _density(
    settings: SyntheticSettings,
    contacts: tuple[Contact, ...],
    active: NDArray[np.bool_],
    latent: Array,
    geochemistry: Array,
) -> Array:
    """Eq. (9), normalised to sum 1 over the pixels."""
    intensity = np.zeros_like(latent)
    for contact, is_active in zip(contacts, active, strict=True):
        if is_active:
            here = contact.window
            intensity[here] += contact.zone * _favour(settings, latent[here], geochemistry[here])
    return intensity / intensity.sum()


def _draw_points(density: Array, count: int, generator: np.random.Generator) -> Array:
    """Points (count, 2): a pixel by the inverse of the cumulated density, anywhere inside it."""
    cumulated = np.cumsum(density)
    pixels = np.searchsorted(cumulated, generator.random(count) * cumulated[-1], side="right")
    rows, columns = np.divmod(pixels, density.shape[1])
    return np.stack([columns, rows], axis=1) + generator.random((count, 2))


def _standardised(field: Array) -> Array:
    return (field - field.mean()) / field.std()


@dataclass(frozen=True)
class Posterior:
    """What can be known of the density: its mean over the latents, given all that is observed."""

    density: Array  # (H, W), sums to 1
    standard_error: Array  # (H, W), of that, by Monte Carlo
    redraws: int
    nll_standard_error: float  # of the mean -log density at the image's deposits, likewise


def posterior_density(
    image: SyntheticImage,
    redraws: int = 512,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Posterior:
    """pi(p | bodies, clean fields, arcs): the mean of the densities over redrawn latents.

    The own parts of s and the noise of the activation are independent of all that is observed, so
    drawing them anew is drawing from the posterior. ``progress`` is told, time and again, how many
    redraws of how many are done.
    """
    settings = image.settings
    marked = np.random.SeedSequence(seed, spawn_key=(POSTERIOR,))
    fields, amplitudes, activation = map(np.random.default_rng, marked.spawn(3))
    rings = [_HostCells.of(image, contact) for contact in image.contacts]
    cells = np.unique(np.concatenate([ring.cells for ring in rings]))
    places = [np.searchsorted(cells, ring.cells) for ring in rings]
    columns, rows = np.floor(image.points[:MOST_JUDGED]).astype(int).T
    deposits = np.searchsorted(cells, rows * settings.size + columns)
    total, squares = np.zeros((2, len(cells)))
    at_deposits = np.empty((len(deposits), redraws))
    block = max(1, BLOCK // len(cells))
    for start in range(0, redraws, block):
        now = slice(start, min(start + block, redraws))
        count = now.stop - now.start
        if progress is not None:
            progress(start, redraws)
        own = np.stack(
            [settings.background.field(settings.background.draw(fields)) for _ in range(count)]
        ).reshape(count, -1)
        enriched = _latent_amplitudes(
            settings, image.enrichment, amplitudes.standard_normal((count, settings.bodies))
        )
        drawn = [ring.redraw(settings, own, enriched) for ring in rings]
        scores = np.stack([score for score, _ in drawn], axis=1)
        masses = np.stack([intensity.sum(axis=0) for _, intensity in drawn], axis=1)
        active = _activate(settings, np.repeat(scores[:, None], ACTIVATIONS, axis=1), activation)
        # of one unit of intensity, the density that it becomes: on average over the activations
        shares = np.mean(active / (active @ masses[..., None]), axis=1)
        densities = np.zeros((len(cells), count))
        for m, (_, intensity) in enumerate(drawn):
            densities[places[m]] += intensity * shares[:, m]
        total += densities.sum(axis=1)
        squares += np.square(densities).sum(axis=1)
        at_deposits[:, now] = densities[deposits]
    if progress is not None:
        progress(redraws, redraws)
    mean = total / redraws
    variance = np.maximum(squares / redraws - mean**2, 0) / max(redraws - 1, 1)
    density, error = np.zeros((2, settings.size**2))
    density[cells], error[cells] = mean, np.sqrt(variance)
    # by the delta method the error of the mean logarithm is that of this mean of ratios
    ratios = (at_deposits / at_deposits.mean(axis=1, keepdims=True)).mean(axis=0)
    shape = image.density.shape
    return Posterior(
        density.reshape(shape),
        error.reshape(shape),
        redraws,
        float(ratios.std(ddof=min(1, redraws - 1)) / math.sqrt(redraws)),
    )


@dataclass(frozen=True)
class _HostCells:
    """The K pixels of one contact, and what is known there."""

    cells: NDArray[np.intp]  # (K,) in the flattened image
    zone: Array  # (K,) e_m
    near: NDArray[np.intp]  # (J,) the bodies whose arcs reach here: its own, and neighbours
    arcs: Array  # (K, J) theirs
    background: Array  # (K,) of t
    geochemistry: Array  # (K,) t

    @classmethod
    def of(cls, image: SyntheticImage, contact: Contact) -> _HostCells:
        inside = contact.zone > 0
        rows, columns = np.nonzero(inside)
        rows, columns = rows + contact.rows.start, columns + contact.columns.start
        arcs = np.stack([other.arcs_at(rows, columns) for other in image.contacts], axis=1)
        near = np.flatnonzero(arcs.any(axis=0))
        return cls(
            rows * image.settings.size + columns,
            contact.zone[inside],
            near,
            arcs[:, near],
            image.background[rows, columns],
            image.clean_geochemistry[rows, columns],
        )

    def redraw(self, settings: SyntheticSettings, own: Array, enriched: Array) -> _Redrawn:
        """Scores (R,) and, were it active, intensities (K, R).

        For R redrawn latents: their own backgrounds (R, H * W), and amplitudes (R, M).
        """
        known = self.background[:, None]
        s = _correlated(settings.background_correlation, known, own[:, self.cells].T)
        s += self.arcs @ enriched[:, self.near].T
        t = self.geochemistry[:, None]
        weights = self.zone / self.zone.sum()
        scores = (weights @ s + weights @ t) / 2
        return scores, self.zone[:, None] * _favour(settings, s, t)
