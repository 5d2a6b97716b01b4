"""Every baseline in the same frame: a density to draw from, learned from images."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from geocfm.data.image import Image
from geocfm.errors import UserError
from geocfm.evaluation.baselines import BASELINES, Baseline, Effort, draw_from
from geocfm.evaluation.baselines.base import normalised, occurrence_counts
from geocfm.evaluation.baselines.cells import Reservoir, pseudo_negatives
from geocfm.evaluation.baselines.pixels import OneClass, PaperForest, PoissonLR, RandomForest
from geocfm.evaluation.baselines.poisson_process import PoissonProcess
from geocfm.evaluation.baselines.spatial import BANDWIDTH, GlobalKDE, RetrievalKDE
from geocfm.events import JsonSink, Reporter
from geocfm.job import BASELINE_NAMES
from geocfm.model.settings import PRESETS
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter
from scipy.stats import chisquare, gaussian_kde
from sklearn.ensemble import RandomForestClassifier

CLASSICAL = [name for name in BASELINES if not name.startswith("unet")]
LEARNING_CELLS = ("poisson-lr", "rf", "rf-paper", "gbdt", "gbdt-paper", "ocsvm", "ipp")
SIZE = 48


class Images:
    """Images in memory to learn from."""

    def __init__(self, *images: Image) -> None:
        self.images = images
        self.channels = len(images[0].channels) if images else 2

    def disjoint(self) -> Iterator[Image]:
        return iter(self.images)

    @property
    def source(self) -> object:
        raise AssertionError("no method here learns by steps")


def effort(seed: int = 1) -> Effort:
    reporter = Reporter(JsonSink(io.StringIO()))
    return Effort(PRESETS["quick"], seed, torch.device("cpu"), reporter)


def make_image(seed: int, points: int = 150, size: int = SIZE) -> Image:
    """Two smooth channels; occurrences follow exp(1.5 a - 0.8 b), none in a hole without data."""
    generator = np.random.default_rng(seed)
    smooth = [gaussian_filter(generator.standard_normal((size, size)), s) for s in (2, 4)]
    channels = np.stack([plane / plane.std() for plane in smooth]).astype(np.float32)
    footprint = np.ones((size, size), dtype=bool)
    footprint[10:16, 20:30] = False
    channels[:, ~footprint] = 0
    intensity = np.where(footprint, np.exp(1.5 * channels[0] - 0.8 * channels[1]), 0.0)
    return Image(channels, footprint, draw_from(intensity, points, generator))


@pytest.fixture(scope="module")
def images() -> Images:
    return Images(*(make_image(seed) for seed in range(5)))


@pytest.fixture(scope="module")
def fitted(images: Images) -> dict[str, Baseline]:
    found = {name: BASELINES[name]() for name in CLASSICAL}
    for baseline in found.values():
        baseline.fit(images, effort())
    return found


def log_score(density: NDArray[np.float64], image: Image) -> float:
    col, row = np.floor(image.points).astype(int).T
    return float(np.log(density[row, col]).mean())


def test_the_registry_holds_what_jobs_may_name() -> None:
    assert set(BASELINES) == set(BASELINE_NAMES)
    assert len({kind.title for kind in BASELINES.values()}) == len(BASELINES) == 12


@pytest.mark.parametrize("name", CLASSICAL)
def test_a_density_is_one_over_the_footprint(fitted: dict[str, Baseline], name: str) -> None:
    image = make_image(50)
    density = fitted[name].density(image)
    assert density.shape == (SIZE, SIZE)
    assert density.sum() == pytest.approx(1, abs=1e-12)
    assert (density[~image.footprint] == 0).all()
    assert (density[image.footprint] > 0).all()
    assert (fitted[name].scores(image) >= 0).all()


@pytest.mark.parametrize("name", CLASSICAL)
def test_no_data_anywhere_gives_no_density(fitted: dict[str, Baseline], name: str) -> None:
    empty = Image(
        np.zeros((2, 20, 30), np.float32), np.zeros((20, 30), dtype=bool), np.zeros((0, 2))
    )
    density = fitted[name].density(empty)
    assert density.shape == (20, 30)
    assert (density == 0).all()
    assert len(draw_from(density, 10, np.random.default_rng(0))) == 0


@pytest.mark.parametrize("name", LEARNING_CELLS)
def test_a_planted_relation_is_learned(fitted: dict[str, Baseline], name: str) -> None:
    image = make_image(51)
    uniform = log_score(fitted["uniform"].density(image), image)
    learned = log_score(fitted[name].density(image), image)
    least = 0.02 if name == "ocsvm" else 0.5  # which knows no background to tell cells from
    assert learned > uniform + least


def test_one_class_scores_are_shifted_by_the_least_of_an_image(images: Images) -> None:
    machine = OneClass()
    machine.fit(images, effort())
    image = make_image(53)
    scores, inside = machine.scores(image), image.footprint
    least = scores[inside].min()
    assert least > 0
    density = machine.density(image)
    best = np.unravel_index(np.argmax(scores), scores.shape)
    shifted = (scores - least) / (scores[best] - least)
    above = inside & (shifted > 1e-5)  # what lies below is floored
    assert density[above] / density[best] == pytest.approx(shifted[above])
    # alone in an image and beside others a cell has the same score: windows of a region compare
    part = Image(image.channels[:, :20], inside[:20], np.zeros((0, 2)))
    assert machine.scores(part) == pytest.approx(scores[:20])


# GBDT takes RF's cells
@pytest.mark.parametrize("name", ["poisson-lr", "rf", "rf-paper", "ocsvm", "ipp"])
def test_the_same_seed_gives_the_same_density(
    images: Images, fitted: dict[str, Baseline], name: str
) -> None:
    again = BASELINES[name]()
    again.fit(Images(*images.images), effort())
    image = make_image(52)
    # the forest adds up its trees in the order that its threads finish
    np.testing.assert_allclose(again.density(image), fitted[name].density(image), rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in CLASSICAL if name != "uniform"])
def test_without_occurrences_there_is_nothing_to_learn(name: str) -> None:
    image = make_image(1)
    bare = Image(image.channels, image.footprint, np.zeros((0, 2)))
    in_hole = Image(image.channels, image.footprint, np.array([[25.5, 12.5], [21.0, 15.9]]))
    for few in (Images(), Images(bare), Images(in_hole)):
        with pytest.raises(UserError, match="nothing to learn from"):
            BASELINES[name]().fit(few, effort())


@pytest.mark.parametrize("name", CLASSICAL)
def test_images_without_points_or_data_do_no_harm(name: str) -> None:
    one, other = make_image(1), make_image(2)
    bare = Image(other.channels, other.footprint, np.zeros((0, 2)))
    void = Image(other.channels, np.zeros_like(other.footprint), other.points)
    single = Image(one.channels, one.footprint, one.points[:1])
    baseline = BASELINES[name]()
    baseline.fit(Images(bare, single, void), effort())
    assert baseline.density(other).sum() == pytest.approx(1)


@pytest.mark.parametrize("name", CLASSICAL)
def test_channels_without_contrast_give_a_density(name: str) -> None:
    image = make_image(3)
    flat = Image(np.ones_like(image.channels), image.footprint, image.points)
    baseline = BASELINES[name]()
    baseline.fit(Images(flat), effort())
    density = baseline.density(flat)
    assert density.sum() == pytest.approx(1)
    if name in LEARNING_CELLS:
        assert np.ptp(density[flat.footprint]) == pytest.approx(0, abs=1e-12)


def test_caps_on_pseudo_negatives() -> None:
    generator = np.random.default_rng(0)
    image = make_image(4, points=400)
    few = Image(image.channels, image.footprint, image.points[:2])
    cells = int(image.footprint.sum())
    for least in (PoissonLR.least_negatives, PaperForest.least_negatives):
        positive, negative = pseudo_negatives(image, least, generator)
        assert positive.sum() < 400  # some cells hold several
        assert negative.sum() == min(cells - positive.sum(), 3 * positive.sum())
        assert not (positive & negative).any()
        assert image.footprint[negative].all()
        assert pseudo_negatives(few, least, generator)[1].sum() == least
    assert (PoissonLR.least_negatives, PaperForest.least_negatives) == (50, 100)
    full = Image(few.channels[:, :3, :5], few.footprint[:3, :5], np.array([[0.5, 0.5]]))
    assert pseudo_negatives(full, 50, generator)[1].sum() == 14  # all there are


def test_a_forest_grown_in_steps_is_the_forest(images: Images) -> None:
    baseline = PaperForest()
    baseline.fit(images, effort(seed=9))
    generator = np.random.default_rng(9)
    pairs = [pseudo_negatives(image, 100, generator) for image in images.images]
    # the reservoir draws its keys from the same stream, image by image
    generator = np.random.default_rng(9)
    kept, others = [], []
    for image in images.images:
        positive, negative = pseudo_negatives(image, 100, generator)
        generator.random(int(negative.sum()))
        kept.append(image.channels[:, positive].T)
        others.append(image.channels[:, negative].T)
    rows = np.concatenate([*kept, *others])
    positives = sum(map(len, kept))
    assert positives == sum(int(positive.sum()) for positive, _ in pairs)
    forest = RandomForestClassifier(
        n_estimators=200, max_depth=15, class_weight="balanced", random_state=42
    ).fit(rows, np.arange(len(rows)) < positives)
    image = make_image(53)
    expected = forest.predict_proba(image.channels[:, image.footprint].T)[:, 1]
    assert np.allclose(baseline.scores(image)[image.footprint], expected, atol=1e-12)


def test_the_background_is_like_the_ground_that_is_mapped(images: Images) -> None:
    baseline = RandomForest()
    baseline.fit(images, effort(seed=9))
    positive = [occurrence_counts(image) > 0 for image in images.images]
    found = [image.channels[:, p].T for image, p in zip(images.images, positive, strict=True)]
    ground = np.concatenate([i.channels[:, i.footprint].T for i in images.images])
    positives = sum(map(len, found))
    assert len(ground) > 10_000
    reservoir = Reservoir(400_000, np.random.default_rng(9))
    reservoir.add(ground)
    background = np.random.default_rng(9).permutation(reservoir.rows())[:10_000]
    rows = np.concatenate([*found, background])
    forest = RandomForestClassifier(
        n_estimators=200, min_samples_leaf=20, class_weight="balanced", random_state=42
    ).fit(rows, np.arange(len(rows)) < positives)
    image = make_image(53)
    chance = forest.predict_proba(image.channels[:, image.footprint].T)[:, 1]
    assert np.allclose(
        baseline.scores(image)[image.footprint], chance / (1 - chance.clip(max=0.999)), rtol=1e-9
    )


def test_the_process_recovers_a_log_linear_intensity() -> None:
    image = make_image(100, points=10_000, size=300)
    process = PoissonProcess(classes=("linear",))
    process.fit(Images(image), effort())
    grid = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    level, first, second = np.log(process.score_rows(grid))
    # channels have a standard deviation of 1, so a coefficient's standard error is about 0.01,
    # and a little more since the background is a sample
    assert first - level == pytest.approx(1.5, abs=0.04)
    assert second - level == pytest.approx(-0.8, abs=0.04)
    expected = process.scores(image)[image.footprint].sum()
    assert expected == pytest.approx(10_000, rel=0.03)  # the intensity counts occurrences


def test_the_process_bends_where_maxent_would() -> None:
    generator = np.random.default_rng(0)
    size = 100
    channel = np.tile(np.linspace(-3, 3, size, dtype=np.float32), (size, 1))
    footprint = np.ones((size, size), dtype=bool)
    points = draw_from(np.exp(-0.5 * (channel.astype(float) / 0.5) ** 2), 800, generator)
    image = Image(channel[None], footprint, points)
    process = PoissonProcess()
    process.fit(Images(image), effort())
    assert process.settings()["features"] == ["linear", "quadratic", "hinge", "product"]
    across = process.score_rows(np.array([[-2.5], [0.0], [2.5], [9.0]], np.float32))
    assert across[1] > 20 * across[0]
    assert across[1] > 20 * across[2]
    assert across[3] == process.score_rows(np.array([[3.0]], np.float32))[0]  # clamped
    few = PoissonProcess()
    few.fit(Images(Image(channel[None], footprint, points[:12])), effort())
    assert few.settings()["features"] == ["linear", "quadratic"]


def test_no_cell_is_richer_for_the_process_than_the_richest_it_learned_from() -> None:
    generator = np.random.default_rng(1)
    channels = generator.standard_normal((3, 80, 80)).astype(np.float32)
    channels[2] = 1  # a layer that is there, but for some cells, without an occurrence
    channels[:, 0, :6] = [[3.0] * 6, [0.0] * 6, [0.0] * 6]
    points = draw_from(np.exp(channels[0] + channels[1]).astype(float), 300, generator)
    image = Image(channels, np.ones((80, 80), dtype=bool), points[points[:, 1] > 1])
    process = PoissonProcess()
    process.fit(Images(image), effort())
    strange = np.stack(np.meshgrid([-4, 0, 4], [-4, 0, 4], [0, 1]), axis=-1).reshape(-1, 3)
    learned = process.score_rows(channels.reshape(3, -1).T)
    assert process.score_rows(strange.astype(np.float32)).max() <= learned.max() * (1 + 1e-9)


def isotropic(places: NDArray[np.float64]) -> gaussian_kde:
    """scipy's KDE, whose kernel has the covariance of the points, with a round one."""
    kde = gaussian_kde(places.T)
    root = BANDWIDTH * np.eye(2)
    kde.cho_cov, kde.covariance = root, root @ root
    kde.log_det = 2 * np.log(np.diag(root * np.sqrt(2 * np.pi))).sum()
    return kde


def test_global_kde_is_scipys_in_region_coordinates() -> None:
    generator = np.random.default_rng(5)
    points = generator.uniform(5, 35, (60, 2))
    footprint = np.ones((40, 40), dtype=bool)
    left = Image(np.zeros((1, 40, 40), np.float32), footprint, points[:25], (100, 7))
    right = Image(np.zeros((1, 40, 40), np.float32), footprint, points[25:], (140, 7))
    baseline = GlobalKDE()
    baseline.fit(Images(left, right), effort())
    places = points + np.where(np.arange(60) < 25, 100, 140)[:, None] * [1, 0] + [0, 7]
    query = Image(np.zeros((1, 30, 50), np.float32), np.ones((30, 50), dtype=bool), points, (90, 0))
    row, col = np.mgrid[:30, :50] + 0.5
    at = np.stack([col.ravel() + 90, row.ravel()])
    assert np.allclose(baseline.scores(query).ravel(), isotropic(places)(at), rtol=1e-9)


def test_retrieval_finds_the_planted_twin() -> None:
    many = [make_image(seed, points=20) for seed in range(200, 230)]
    baseline = RetrievalKDE()
    baseline.fit(Images(*many), effort())
    generator = np.random.default_rng(0)
    for number in (0, 13, 29):
        noise = 0.2 * generator.standard_normal(many[number].channels.shape)
        twin = Image(
            (2 * many[number].channels + noise).astype(np.float32),
            many[number].footprint,
            np.zeros((0, 2)),
        )
        found = baseline.nearest(twin)
        assert found[0] == number
        assert len(found) == 10
    alone = RetrievalKDE()
    alone.fit(Images(many[3]), effort())
    density = alone.density(many[3])
    assert log_score(density, many[3]) > np.log(1 / many[3].footprint.sum()) + 0.5


def test_draws_follow_the_density() -> None:
    generator = np.random.default_rng(3)
    density = np.array([[0.0, 0.1, 0.2], [0.3, 0.0, 0.4]])
    points = draw_from(density, 20_000, generator)
    col, row = np.floor(points).astype(int).T
    counts = np.zeros(density.shape)
    np.add.at(counts, (row, col), 1)
    assert counts[0, 0] == counts[1, 1] == 0
    held = density > 0
    assert chisquare(counts[held], 20_000 * density[held]).pvalue > 1e-3
    inside = np.histogram((points - np.floor(points)).ravel(), 10, (0, 1))[0]
    assert chisquare(inside).pvalue > 1e-3
    assert draw_from(density, 0, generator).shape == (0, 2)


@pytest.mark.parametrize("unit", [1e-300, 1e-8, 1.0, 1e300])
def test_a_density_does_not_depend_on_the_unit_of_scores(unit: float) -> None:
    scores = np.array([[1.0, 3.0], [0.0, 100.0]])
    footprint = np.array([[True, True], [True, False]])
    density = normalised(scores * unit, footprint)
    assert density == pytest.approx(np.array([[0.25, 0.75], [0.0, 0.0]]), abs=1e-6)
    assert density[1, 0] > 0
    assert density[1, 1] == 0


def test_a_reservoir_keeps_rows_evenly() -> None:
    kept = np.zeros(1000)
    for seed in range(200):
        reservoir = Reservoir(100, np.random.default_rng(seed))
        for start in range(0, 1000, 70):
            rows = np.arange(start, min(start + 70, 1000), dtype=np.float32)[:, None]
            reservoir.add(rows)
        found = reservoir.rows()[:, 0].astype(int)
        assert len(set(found)) == 100
        assert reservoir.offered == 1000
        kept[found] += 1
    assert chisquare(kept.reshape(10, 100).sum(axis=1)).pvalue > 1e-3
