from __future__ import annotations

import time
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from geocfm.data.synthetic import (
    TEST_SEEDS,
    VALIDATION_SEEDS,
    Posterior,
    SyntheticImage,
    SyntheticSettings,
    _activate,
    _density,
    _latent,
    make_image,
    posterior_density,
)
from geocfm.data.synthetic_bodies import Body, draw_bodies, draw_ring
from geocfm.data.synthetic_fields import Lattice
from numpy.typing import NDArray
from scipy.stats import chisquare

SMALL = SyntheticSettings(size=64)


def inside(body: Body, x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which places, in units, lie in an ellipse: by its quadratic form."""
    turn = np.array(
        [[np.cos(body.angle), np.sin(body.angle)], [-np.sin(body.angle), np.cos(body.angle)]]
    )
    form = turn.T @ np.diag(1 / np.square(body.axes)) @ turn
    dx, dy = x - body.centre[0], y - body.centre[1]
    found: NDArray[np.bool_] = (
        form[0, 0] * dx**2 + 2 * form[0, 1] * dx * dy + form[1, 1] * dy**2 < 1
    )
    return found


def in_units(settings: SyntheticSettings) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    y, x = (np.mgrid[: settings.size, : settings.size] + 0.5) / settings.unit
    return x, y


def pixels(points: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    column, row = np.floor(points).astype(int).T
    return row, column


def nll(density: NDArray[np.float64], image: SyntheticImage) -> float:
    return float(-np.log(density[pixels(image.points)]).mean())


def blocks(field: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Means of the squares that one pixel of a coarser image covers."""
    side = len(field) // size
    return field.reshape(size, side, size, side).mean(axis=(1, 3))


# --- one image


def test_a_seed_gives_the_same_image_on_every_machine() -> None:
    image = make_image(SyntheticSettings(), TEST_SEEDS[0])
    first = [[59.1802815, 174.41433276], [4.08427717, 147.92340798], [71.78426952, 130.48692055]]
    assert image.points[:3] == pytest.approx(np.array(first), abs=1e-4)
    assert image.points.sum(axis=0) == pytest.approx([18267.65314714, 74860.03586387], abs=1e-2)
    assert image.active.tolist() == [False, True, False, False, False]
    assert image.bodies[0].centre == pytest.approx((124.77750137, 58.70156717), abs=1e-6)
    assert image.magnetics[100, 50] == pytest.approx(0.98846812, abs=1e-6)
    assert image.geochemistry[30, 170] == pytest.approx(-1.35728121, abs=1e-6)
    assert image.latent[110, 110] == pytest.approx(-0.03601494, abs=1e-6)
    assert image.density.max() == pytest.approx(0.003274372, rel=1e-5)


def test_another_seed_gives_another_image_and_a_run_none_of_the_held_out_ones() -> None:
    settings = replace(SMALL, size=32)
    seeds = [*TEST_SEEDS[:3], *VALIDATION_SEEDS[:3], (900000, 0), (0, 900000), (1, 0), (1, 1)]
    points = [make_image(settings, seed).points for seed in seeds]
    for i, first in enumerate(points):
        assert all(not np.allclose(first, other) for other in points[i + 1 :])


@pytest.mark.parametrize("size", [55, 110])
def test_another_size_shows_the_same_geology(size: int) -> None:
    fine = make_image(SyntheticSettings(), 5)
    coarse = make_image(SyntheticSettings(size=size), 5)
    assert coarse.bodies == fine.bodies
    assert (coarse.active == fine.active).all()
    shown = (
        (fine.clean_magnetics, coarse.clean_magnetics),
        (fine.clean_geochemistry, coarse.clean_geochemistry),
        (fine.latent, coarse.latent),
        (fine.density, coarse.density),
    )
    for there, here in shown:
        assert np.corrcoef(blocks(there, size).ravel(), here.ravel())[0, 1] > 0.98


def test_sixty_bodies_make_a_larger_region_of_the_same_geology() -> None:
    few = [make_image(SMALL, seed) for seed in range(12)]
    many = make_image(SyntheticSettings(size=220, bodies=60, deposits=6000), 1)
    assert len(many.bodies) == len(many.contacts) == 60
    assert many.points.shape == (6000, 2)
    assert many.settings.unit == pytest.approx(SMALL.unit * 220 / 64 / 12**0.5)

    def covered(image: SyntheticImage) -> float:
        area = sum(np.pi * body.axes[0] * body.axes[1] for body in image.bodies)
        return area / image.settings.side**2

    assert covered(many) == pytest.approx(np.mean([covered(image) for image in few]), rel=0.2)
    # a small image always has an active body, so its share is a little larger
    assert 0.1 < many.active.mean() < np.mean([image.active.mean() for image in few])


def test_an_image_is_what_a_method_may_see() -> None:
    made = make_image(SMALL, 3)
    image = made.image()
    assert image.channels.dtype == np.float32
    assert image.channels.shape == (2, 64, 64)
    assert image.channels.mean(axis=(1, 2)) == pytest.approx([0, 0], abs=1e-6)
    assert image.channels.std(axis=(1, 2)) == pytest.approx([1, 1], abs=1e-6)
    assert image.footprint.all()
    assert image.points is made.points
    # the noise is all that lies between what is seen and the clean fields
    for seen, clean in zip(
        image.channels, (made.clean_magnetics, made.clean_geochemistry), strict=True
    ):
        assert 0.9 < np.corrcoef(seen.ravel(), clean.ravel())[0, 1] < 1


def test_making_an_image_is_quick() -> None:
    settings = SyntheticSettings()
    took = []
    for seed in range(12):
        start = time.thread_time()
        make_image(settings, seed)
        took.append(time.thread_time() - start)
    # an idle core takes less than 25 ms (docs/benchmarks.md), a busy one more
    assert np.median(took) < 0.06


# --- bodies and contacts


@pytest.mark.parametrize(
    "settings",
    [
        SyntheticSettings(),
        SyntheticSettings(bodies=60, size=350),
        SyntheticSettings(half_length=(70.0, 90.0), gap=30.0),  # more than there is room for
    ],
)
def test_bodies_do_not_overlap(settings: SyntheticSettings) -> None:
    x, y = in_units(settings)
    for seed in range(2):
        bodies = draw_bodies(settings, np.random.default_rng(seed))
        assert len(bodies) == settings.bodies
        assert sum(inside(body, x, y).astype(int) for body in bodies).max() == 1
        edge = settings.margin - 0.5
        at_border = (np.minimum(x, y) < edge) | (np.maximum(x, y) > settings.side - edge)
        assert not any(inside(body, x, y)[at_border].any() for body in bodies)


def test_slopes_are_the_derivatives_of_the_fields() -> None:
    settings = SyntheticSettings(size=440)
    lattice = Lattice(settings.side, settings.trend_spacing, settings.size)
    coefficients = lattice.draw(np.random.default_rng(0))
    ring = draw_ring(draw_bodies(settings, np.random.default_rng(1))[0], settings)
    for field, slopes in (
        (lattice.field(coefficients), lattice.slopes(coefficients)),
        (ring.field, (ring.slope_x, ring.slope_y)),
    ):
        down, across = np.gradient(field, 1 / settings.unit)
        for found, expected in zip(slopes, (across, down), strict=True):
            inner = (slice(1, -1), slice(1, -1))
            assert np.abs(found - expected)[inner].max() < 0.03 * np.abs(expected).max()


def test_a_smooth_field_has_mean_0_and_variance_1() -> None:
    lattice = Lattice(220, 20, 44)
    generator = np.random.default_rng(0)
    fields = np.stack([lattice.field(lattice.draw(generator)) for _ in range(400)])
    assert fields.mean() == pytest.approx(0, abs=0.05)
    assert fields.std() == pytest.approx(1, abs=0.03)


def test_contacts_are_rings_where_the_clean_field_is_steep() -> None:
    image = make_image(SyntheticSettings(size=440), 2)
    x, y = in_units(image.settings)
    down, across = np.gradient(image.clean_magnetics)
    steep = np.hypot(across, down)
    for body, contact in zip(image.bodies, image.contacts, strict=True):
        assert contact.zone.max() == 1
        assert contact.zone.min() == 0
        zone = np.zeros_like(steep)
        zone[contact.window] = contact.zone
        on = zone > 0.5
        within = inside(body, x, y)
        assert 0.2 < within[on].mean() < 0.8  # it runs along the edge
        assert steep[on].min() > 3 * np.median(steep[~on & ~within])
        assert zone[np.hypot(x - body.centre[0], y - body.centre[1]) < 3].max() < 0.1


# --- activation, density, deposits


def test_the_density_is_equation_9() -> None:
    image = make_image(SMALL, 11)
    settings = image.settings
    e = np.zeros_like(image.density)
    for contact, active in zip(image.contacts, image.active, strict=True):
        e[contact.window] += active * contact.zone
    s, t = image.latent, image.clean_geochemistry
    expected = e * np.exp(settings.alpha * s) * np.exp(settings.beta * t)
    expected *= np.exp(-settings.gamma * abs(s - t))
    assert image.density.sum() == pytest.approx(1)
    np.testing.assert_allclose(image.density, expected / expected.sum(), rtol=1e-9)
    assert 0 < image.active.sum() < len(image.active)


def test_deposits_follow_the_density_anywhere_in_a_pixel() -> None:
    image = make_image(replace(SMALL, deposits=20000), 4)
    assert ((image.points >= 0) & (image.points < 64)).all()
    counts = np.zeros_like(image.density)
    np.add.at(counts, pixels(image.points), 1)
    expected = 20000 * image.density
    often = expected > 10
    assert not counts[image.density == 0].any()
    seen, due = np.append(counts[often], counts[~often].sum()), expected[~often].sum()
    assert chisquare(seen, np.append(expected[often], due)).pvalue > 0.001
    for offset in (image.points % 1).T:
        histogram = np.histogram(offset, 20, (0, 1))[0]
        assert chisquare(histogram).pvalue > 0.001


def test_one_body_is_always_active_and_enriched_ones_more_often() -> None:
    never, always = (replace(SMALL, activation_threshold=level) for level in (99.0, -99.0))
    for seed in range(5):
        assert make_image(never, seed).active.sum() == 1
        assert make_image(always, seed).active.all()
    images = [make_image(SMALL, seed) for seed in range(60)]
    active = np.concatenate([image.active for image in images])
    enriched = np.concatenate([image.enrichment for image in images])
    assert 0.15 < active.mean() < 0.7
    assert enriched[active].mean() > enriched[~active].mean() + 0.2


# --- what can be known


def test_the_posterior_is_the_mean_of_what_may_have_happened() -> None:
    """The latents drawn anew over the whole image, as making an image does."""
    image = make_image(SMALL, 7)
    posterior = posterior_density(image, 2000)
    assert posterior.density.sum() == pytest.approx(1)
    generator = np.random.default_rng(1)
    densities = []
    for _ in range(1500):
        s = _latent(SMALL, image.background, image.enrichment, image.contacts, generator)
        scores = [
            np.average((s + image.clean_geochemistry)[contact.window] / 2, weights=contact.zone)
            for contact in image.contacts
        ]
        active = _activate(SMALL, np.array(scores), generator)
        densities.append(_density(SMALL, image.contacts, active, s, image.clean_geochemistry))
    mean = np.mean(densities, axis=0)
    error = np.hypot(np.std(densities, axis=0) / 1500**0.5, posterior.standard_error)
    assert posterior.density[mean == 0].sum() < 0.003  # rings that were hardly ever active
    # of each ring as a whole, and of the pixels, which hang together
    for contact in image.contacts:
        ring = (contact.window[0], contact.window[1])
        mass = np.array([density[ring][contact.zone > 0].sum() for density in densities])
        found = posterior.density[ring][contact.zone > 0].sum()
        assert abs(found - mass.mean()) < 4.5 * mass.std() / 1500**0.5
    off = np.abs(posterior.density - mean)[mean > 0] / error[mean > 0]
    assert off.max() < 5.5
    assert np.sqrt(np.mean(off**2)) < 2


def test_no_density_that_misses_the_latents_is_better_on_average() -> None:
    images = [make_image(replace(SMALL, size=44, deposits=200), seed) for seed in range(40)]
    posteriors = [posterior_density(image, 200).density for image in images]

    def tempered(density: NDArray[np.float64], power: float) -> NDArray[np.float64]:
        changed = np.where(density > 0, density, 1) ** power * (density > 0)
        return changed / changed.sum()

    def mean_nll(densities: list[NDArray[np.float64]]) -> float:
        return float(np.mean([nll(d, image) for d, image in zip(densities, images, strict=True)]))

    best = mean_nll(posteriors)
    truth = mean_nll([image.density for image in images])
    assert truth + 0.2 < best < np.log(44**2) - 0.5
    for power in (0.6, 1.6):
        assert mean_nll([tempered(density, power) for density in posteriors]) > best
    uniform = np.full((44, 44), 44.0**-2)
    others = [0.9 * other + 0.1 * uniform for _, other in pairwise([*posteriors, posteriors[0]])]
    assert mean_nll(others) > best + 0.5


def test_the_standard_errors_are_true_and_shrink_with_the_root_of_the_redraws() -> None:
    image = make_image(SMALL, 8)
    few, many = posterior_density(image, 100), posterior_density(image, 1600)
    assert few.redraws == 100
    assert few.standard_error.sum() / many.standard_error.sum() == pytest.approx(4, rel=0.3)
    assert few.nll_standard_error / many.nll_standard_error == pytest.approx(4, rel=0.4)
    repeated = [posterior_density(image, 100, seed) for seed in range(40)]

    def said(name: str) -> NDArray[np.float64]:
        return np.mean([getattr(p, name) for p in repeated], axis=0)

    spread = np.std([p.density for p in repeated], axis=0)
    assert said("standard_error").sum() == pytest.approx(spread.sum(), rel=0.15)
    nlls = [nll(p.density, image) for p in repeated]
    assert said("nll_standard_error") == pytest.approx(np.std(nlls), rel=0.4)


def test_redraws_are_seeded_and_do_not_depend_on_the_block(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    image = make_image(SMALL, 9)

    def redraw(seed: int) -> Posterior:
        return posterior_density(image, 50, seed)

    first = redraw(1)
    assert (redraw(1).density == first.density).all()
    assert not np.allclose(redraw(2).density, first.density)
    monkeypatch.setattr("geocfm.data.synthetic.BLOCK", 4000)
    np.testing.assert_allclose(redraw(1).density, first.density, rtol=1e-9)


def test_redraws_use_none_of_the_random_numbers_of_an_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    used: list[tuple[int, ...]] = []
    make = np.random.default_rng

    def noted(seed: np.random.SeedSequence) -> np.random.Generator:
        used.append(tuple(seed.generate_state(4)))
        return make(seed)

    monkeypatch.setattr(np.random, "default_rng", noted)
    for seed in (0, 5):
        posterior_density(make_image(SMALL, seed), 2, seed)
    make_image(SMALL, (0, 0))
    assert len(used) == len(set(used)) == 2 * (6 + 3) + 6


def test_redrawing_says_how_far_it_is_and_can_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("geocfm.data.synthetic.BLOCK", 4000)
    image = make_image(SMALL, 9)
    told: list[tuple[int, int]] = []
    posterior_density(image, 20, progress=lambda done, total: told.append((done, total)))
    done = [number for number, _ in told]
    assert (done[0], done[-1]) == (0, 20)
    assert done == sorted(set(done))
    assert len(done) > 5
    assert {total for _, total in told} == {20}

    def stop(done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        posterior_density(image, 20, progress=stop)


def test_a_part_of_many_deposits_tells_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    image = make_image(replace(SMALL, deposits=4000), 8)
    every = posterior_density(image, 200)
    monkeypatch.setattr("geocfm.data.synthetic.MOST_JUDGED", 1000)
    some = posterior_density(image, 200)
    assert some.nll_standard_error == pytest.approx(every.nll_standard_error, rel=0.2)
    assert some.nll_standard_error != every.nll_standard_error
    assert (some.density == every.density).all()
