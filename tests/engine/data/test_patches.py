"""Batches: which image, which points, how often, and that the generator alone decides."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from geocfm.data.augmentation import SYMMETRIES, turn_image, turn_points
from geocfm.data.patches import Batch, count_image, make_batch, repeated_points
from geocfm.data.region_batches import read_example
from geocfm.geo.grid import Window
from geocfm.model.settings import TrainingSettings
from scipy.stats import norm

ONCE = TrainingSettings(points_per_step=0)


def windows_of(region, count: int = 4) -> list[Window]:
    starts = region.starts["train"]
    chosen = np.linspace(0, len(starts) - 1, count).astype(int)
    return [region.window(starts[i]) for i in chosen]


def batch_of(region, windows, settings=ONCE, seed=0, augment=False) -> Batch:
    generator = np.random.default_rng(seed)
    examples = []
    for window in windows:
        example = read_example(region, window, generator)
        examples.append(example.turned(generator) if augment else example)
    return make_batch(examples, settings, generator)


def test_shapes_and_kinds(region):
    windows = windows_of(region)
    batch = batch_of(region, windows)
    count = sum(len(region.points_in(window)) for window in windows)
    assert batch.images.shape == (4, 1 + 1 + 4 + 3, 16, 16)
    assert batch.points.shape == batch.noise.shape == (count, 2)
    assert batch.t.shape == batch.image.shape == (count,)
    kinds = {tensor.dtype for tensor in batch.tensors().values()}
    assert kinds == {torch.float32, torch.int64, torch.bool}
    assert batch.log_shares is None
    assert batch.footprints.dtype == torch.bool
    assert batch.footprints.shape == (4, 16, 16)
    assert batch.image.dtype == torch.int64
    assert batch.to(torch.device("meta")).points.shape == (count, 2)


def test_each_point_lies_in_its_own_window(region):
    windows = windows_of(region)
    batch = batch_of(region, windows)
    for number, window in enumerate(windows):
        mine = batch.points[batch.image == number].double().numpy()
        back = mine * 16 + (window.col, window.row)
        inside = [
            (x, y)
            for x, y in region.points
            if window.col <= x < window.col_stop and window.row <= y < window.row_stop
        ]
        assert len(inside) > 0
        np.testing.assert_allclose(back, inside, atol=1e-4)


def test_images_are_the_encoded_windows(region):
    windows = windows_of(region)
    batch = batch_of(region, windows)
    for image, window in zip(batch.images.numpy(), windows, strict=True):
        np.testing.assert_array_equal(image, region.encoder.encode(region.read(window))[0])
    for footprint, window in zip(batch.footprints.numpy(), windows, strict=True):
        np.testing.assert_array_equal(footprint, region.encoder.encode(region.read(window))[1])


def test_the_generator_decides(region):
    windows = windows_of(region)
    first, again, other = (batch_of(region, windows, ONCE, s, True) for s in (1, 1, 2))
    for name, tensor in first.tensors().items():
        assert torch.equal(tensor, again.tensors()[name])
    assert not torch.equal(first.noise, other.noise)
    assert not torch.equal(first.t, other.t)


@pytest.mark.parametrize("wanted", [0, 1, 50, 1000])
def test_points_are_repeated_with_new_noise(region, wanted):
    windows = windows_of(region)
    once = batch_of(region, windows)
    count = len(once.points)
    repeats = max(1, wanted // count)
    batch = batch_of(region, windows, TrainingSettings(points_per_step=wanted))
    assert len(batch.points) == repeats * count
    assert wanted == 0 or count * repeats <= max(wanted, count)
    for turn in range(repeats):
        part = slice(turn * count, (turn + 1) * count)
        assert torch.equal(batch.points[part], once.points)
        assert torch.equal(batch.image[part], once.image)
    assert len(torch.unique(batch.noise, dim=0)) == repeats * count
    assert len(torch.unique(batch.t)) > 0.99 * repeats * count


def test_noise_and_time_have_the_laws_of_the_paper(region):
    batch = batch_of(region, windows_of(region), TrainingSettings(points_per_step=40_000))
    assert batch.noise.mean(dim=0).abs().max() < 0.03
    assert (torch.cov(batch.noise.T) - torch.eye(2)).abs().max() < 0.03
    assert batch.t.min() >= 0
    assert batch.t.max() < 1
    share = torch.histc(batch.t, 10, 0, 1) / len(batch.t)
    assert (share - 0.1).abs().max() < 0.01


def test_augmented_windows_are_turned_with_their_points(region):
    """Each image is one of the eight turns of its window, and its points were turned alike."""
    windows = windows_of(region) * 10
    plain = batch_of(region, windows)
    turned = batch_of(region, windows, augment=True)
    used = set()
    for number in range(len(windows)):
        mine = plain.image == number
        assert torch.equal(mine, turned.image == number)
        before, after = plain.images[number].numpy(), turned.images[number].numpy()
        points = plain.points[mine].double().numpy()
        fitting = [
            symmetry
            for symmetry in range(SYMMETRIES)
            if np.array_equal(turn_image(before, symmetry), after)
            and np.array_equal(
                turn_image(plain.footprints[number].numpy(), symmetry),
                turned.footprints[number].numpy(),
            )
            and np.allclose(
                turn_points(points, symmetry), turned.points[mine].double().numpy(), atol=1e-6
            )
        ]
        assert fitting
        used.update(fitting)
    assert used == set(range(SYMMETRIES))


def test_counts_by_cell():
    points = np.array([[0.1, 0.9], [0.1, 0.9], [0.3, 0.0], [0.999, 0.26], [1.0, 1.0]])
    expected = np.zeros((4, 4), dtype=int)
    expected[3, 0], expected[0, 1], expected[1, 3], expected[3, 3] = 2, 1, 1, 1
    np.testing.assert_array_equal(count_image(points, 4), expected)
    assert not count_image(np.zeros((0, 2)), 4).any()


@pytest.mark.parametrize("size", [16, 49, 100, 128, 220])
def test_a_point_on_a_cells_corner_belongs_to_that_cell(size):
    """k / size * size is not always k: 7 of 220 comes back as 6.999..."""
    cells = np.stack([np.arange(size), np.arange(size)[::-1]], axis=1)
    counts = count_image(cells / size, size)
    expected = np.zeros((size, size), dtype=int)
    expected[cells[:, 1], cells[:, 0]] = 1
    np.testing.assert_array_equal(counts, expected)


def test_counts_become_points_in_their_cells():
    generator = np.random.default_rng(3)
    counts = generator.integers(0, 4, (20, 20)) * (generator.random((20, 20)) < 0.3)
    points = repeated_points(counts, generator)
    assert len(points) == counts.sum()
    np.testing.assert_array_equal(count_image(points, 20), counts)
    assert len(np.unique(points, axis=0)) == len(points)


def test_points_fill_their_cell_evenly():
    counts = np.zeros((8, 8), dtype=np.int64)
    counts[5, 2] = 4000
    inside = repeated_points(counts, np.random.default_rng(4)) * 8 - (2, 5)
    assert inside.min() >= 0
    assert inside.max() < 1
    np.testing.assert_allclose(inside.mean(axis=0), 0.5, atol=0.02)
    np.testing.assert_allclose(inside.var(axis=0), 1 / 12, atol=0.005)


def test_batches_from_counts_keep_cells_and_numbers(make_region):
    region = make_region(positions="counts")
    windows = windows_of(region, 6)
    first, other = (batch_of(region, windows, seed=seed) for seed in (0, 1))
    for number, window in enumerate(windows):
        col, row = np.floor(region.points).astype(int).T - [[window.col], [window.row]]
        inside = (col >= 0) & (col < 16) & (row >= 0) & (row < 16)
        expected = np.zeros((16, 16), dtype=int)
        np.add.at(expected, (row[inside], col[inside]), 1)
        for batch in (first, other):
            mine = batch.points[batch.image == number].double().numpy()
            np.testing.assert_array_equal(count_image(mine, 16), expected)
    assert not torch.equal(first.points, other.points)  # spread anew at every use


def test_a_window_without_points_has_an_image_and_no_index(region):
    empty = Window(0, 60, 16, 16)
    assert not len(region.points_in(empty))
    full = windows_of(region, 1)[0]
    batch = batch_of(region, [empty, full])
    assert len(batch.images) == 2
    assert set(batch.image.tolist()) == {1}
    assert len(batch_of(region, [empty]).points) == 0


def test_even_noise_leaves_no_gaps(region):
    """Times and normals in every sixteenth of their range, more alike than chance would do."""
    settings = TrainingSettings(points_per_step=4096, noise="even")
    first, second = (batch_of(region, windows_of(region), settings, seed) for seed in (1, 2))
    assert not torch.equal(first.noise, second.noise)
    assert not torch.equal(first.t, second.t)
    chances = [first.t.numpy(), *norm.cdf(first.noise.numpy()).T]
    for chance in chances:
        counts = np.histogram(chance, bins=16, range=(0, 1))[0]
        assert counts.std() < 0.15 * np.sqrt(counts.mean())  # chance: 1
    order = np.corrcoef(np.arange(len(first.t)), first.t.numpy())[0, 1]
    assert abs(order) < 0.1
    assert torch.isfinite(first.noise).all()


def test_late_times_are_late(region):
    settings = TrainingSettings(points_per_step=20_000, late_times=3)
    t = batch_of(region, windows_of(region), settings).t.numpy()
    assert t.min() >= 0
    assert t.max() <= 1
    assert np.mean(t > 0.5) == pytest.approx(0.5 ** (1 / 3), abs=0.02)


def test_transport_exchanges_noise_within_each_window_only(region):
    windows = windows_of(region)
    apart, coupled = (
        batch_of(region, windows, TrainingSettings(points_per_step=512, coupling=coupling))
        for coupling in ("independent", "transport")
    )
    assert torch.equal(apart.points, coupled.points)

    def distance(batch: Batch, mine: torch.Tensor) -> float:
        return (batch.points[mine] - batch.noise[mine]).square().sum().item()

    for number in range(len(windows)):
        mine = apart.image == number
        before, after = (sorted(map(tuple, b.noise[mine].tolist())) for b in (apart, coupled))
        assert before == after  # the same noise in other hands
        if len(apart.points[mine].unique(dim=0)) > 1:
            assert distance(coupled, mine) < 0.99 * distance(apart, mine)
        few = torch.nonzero(mine)[:40, 0]
        for i in few:  # no exchange of two would be shorter
            for j in few:
                p, z = coupled.points, coupled.noise
                assert torch.dot(p[i] - p[j], z[i] - z[j]) >= -1e-5


def test_jitter_moves_occurrences_by_so_many_cells(region):
    window = next(
        window
        for window in windows_of(region, 50)
        if (np.abs(region.points_in(window) - 0.5) < 0.3).all(axis=1).any()
    )
    generator = np.random.default_rng(0)
    exact = read_example(region, window, generator).points
    moved = np.stack(
        [
            read_example(region, window, generator, TrainingSettings(jitter=0.5)).points - exact
            for _ in range(400)
        ]
    )
    inner = (np.abs(exact - 0.5) < 0.3).all(axis=1)
    assert 16 * moved[:, inner].std() == pytest.approx(0.5, rel=0.1)
    assert ((exact + moved >= 0) & (exact + moved < 1)).all()


def test_hidden_layers_look_like_layers_without_data(region):
    window = windows_of(region)[0]
    generator = np.random.default_rng(0)
    whole = read_example(region, window, generator)
    validity = whole.channels[-3:]  # three layers
    hidden = []
    for _ in range(60):
        some = read_example(region, window, generator, TrainingSettings(layer_dropout=0.5))
        np.testing.assert_array_equal(some.points, whole.points)
        seen = some.channels[-3:].any(axis=(1, 2))
        assert seen.any()
        np.testing.assert_array_equal(some.channels[-3:][seen], validity[seen])
        hidden.append(~seen)
    assert np.mean(hidden) == pytest.approx(0.5 * 2 / 3, abs=0.1)


@pytest.mark.parametrize("start", [(24, 24), (0, 0), (80, 64), (40, 3)])
def test_a_margin_shows_what_lies_around_a_window_and_no_data_beyond_the_grid(make_region, start):
    region = make_region(margin=8)
    window = Window(*start, 16, 16)
    example = read_example(region, window, np.random.default_rng(0))
    whole, footprint = region.encoder.encode(region.read(region.grid.window()))
    rows, cols = (np.arange(first - 8, first + 24) for first in start)
    on_grid = (rows[:, None] >= 0) & (rows[:, None] < 96) & (cols >= 0) & (cols < 80)
    around = whole[:, rows.clip(0, 95)[:, None], cols.clip(0, 79)]
    assert example.channels.shape == (len(whole), 32, 32)
    np.testing.assert_array_equal(example.channels[:, on_grid], around[:, on_grid])
    validity = slice(-3, None)  # of three layers
    assert not example.channels[validity][:, ~on_grid].any()
    assert example.footprint.shape == (16, 16)
    np.testing.assert_array_equal(
        example.footprint, footprint[window.slices_in(Window(0, 0, 96, 80))]
    )
    np.testing.assert_array_equal(example.points, region.points_in(window))


def test_a_window_is_turned_with_its_margin(make_region):
    region = make_region(margin=8)
    example = read_example(region, Window(24, 24, 16, 16), np.random.default_rng(0))
    for seed in range(8):
        turned = replace(example, share=2.5).turned(np.random.default_rng(seed))
        symmetry = int(np.random.default_rng(seed).integers(SYMMETRIES))
        inner = turned.channels[:, 8:-8, 8:-8]
        np.testing.assert_array_equal(inner, turn_image(example.channels[:, 8:-8, 8:-8], symmetry))
        np.testing.assert_array_equal(turned.footprint, turn_image(example.footprint, symmetry))
        assert turned.share == 2.5


def test_a_batch_tells_for_how_many_windows_each_of_its_own_stands(region):
    generator = np.random.default_rng(0)
    examples = [read_example(region, window, generator) for window in windows_of(region)]
    assert make_batch(examples, ONCE, generator).log_shares is None
    shared = [
        replace(example, share=share) for example, share in zip(examples, (1, 2, 5, 9), strict=True)
    ]
    found = make_batch(shared, ONCE, generator).log_shares
    np.testing.assert_allclose(found, np.log([1, 2, 5, 9]), rtol=1e-6)
    assert found.dtype == torch.float32
