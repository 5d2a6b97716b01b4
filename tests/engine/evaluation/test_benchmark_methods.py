from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from geocfm.data.image import Image
from geocfm.data.synthetic import SyntheticSettings, make_image
from geocfm.errors import UserError
from geocfm.evaluation.benchmark import flow_method
from geocfm.evaluation.benchmark.flow_method import FlowMethod, HeadMethod
from geocfm.evaluation.benchmark.kde_map import kde_map
from geocfm.evaluation.benchmark.methods import (
    HEAD,
    METHODS,
    ORACLES,
    BayesDensity,
    DensityView,
    LatentDensity,
    choose_methods,
)
from geocfm.evaluation.benchmark.protocol import ensure_same
from geocfm.evaluation.benchmark.result_files import (
    Pictures,
    load_pictures,
    load_result,
    plain,
    save_result,
)
from geocfm.evaluation.benchmark.scoring import (
    CURVE_AREAS,
    captured_key,
    density_values,
    draw_seed,
    draw_values,
    score_method,
)
from geocfm.model.network import new_network
from geocfm.model.settings import PRESETS, NetworkSettings
from scipy.stats import gaussian_kde, norm
from small_flow import trained_flow
from test_benchmark_tables import result, settings

SIZE = 48
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def truth():
    return make_image(SyntheticSettings(size=SIZE), 5)


@pytest.fixture(scope="module")
def still_flow(one_thread):
    """A new network moves nothing: its density is that of the base, known in closed form."""
    return FlowMethod(small_flow(), PRESETS["quick"].sampling, CPU)


def small_flow():
    small = NetworkSettings(width=8, features=8, head_width=16, head_depth=1)
    return new_network(2, PRESETS["quick"].model_copy(update={"network": small}), 1).eval()


def base_density(points):
    """N(0, 1) of (p - 0.5) sqrt(12) on both axes, per px^2."""
    scale = math.sqrt(12) / SIZE
    return np.prod(norm.pdf((points - SIZE / 2) * scale) * scale, axis=1)


def test_the_flows_density_is_exact_and_divided_by_its_mass_inside(truth, still_flow):
    view = still_flow.look(truth.image(), None)
    mass = (norm.cdf(math.sqrt(3)) - norm.cdf(-math.sqrt(3))) ** 2
    assert view.mass == pytest.approx(mass, abs=1e-3)
    expected = np.log(base_density(truth.points) / mass)
    assert view.log_density(truth.points) == pytest.approx(expected, abs=2e-3)
    centres = np.stack(np.meshgrid(*[np.arange(SIZE) + 0.5] * 2), axis=-1).reshape(-1, 2)
    assert view.density().sum() == pytest.approx(1)
    assert view.density().ravel() == pytest.approx(base_density(centres) / mass, rel=5e-3)
    more = view.more(truth.points, view.draws(100, 2, (1,)))
    assert more["integral"] == pytest.approx(mass, rel=5e-3)


def test_the_flows_draws_follow_its_density(truth, still_flow):
    view = still_flow.look(truth.image(), None)
    draws = view.draws(2000, 3, (1, 2))
    assert draws.shape == (3, 2000, 2)
    assert ((draws >= 0) & (draws < SIZE)).all()
    columns = np.histogram(draws[..., 0], bins=6, range=(0, SIZE))[0] / draws[..., 0].size
    expected = view.density().sum(axis=0).reshape(6, -1).sum(axis=1)
    assert columns == pytest.approx(expected, abs=0.02)
    assert (view.draws(2000, 3, (1, 2)) == draws).all()
    assert (view.draws(2000, 3, (1, 3)) != draws).any()


def test_a_flow_and_the_head_that_anchors_it_are_two_answers_to_one_image(one_thread):
    flow = trained_flow(anchored=True)
    sampling = PRESETS["quick"].sampling
    size = flow.channels.shape[-1]
    image = Image(flow.channels, np.ones((size, size), dtype=bool), np.zeros((0, 2)))
    by_flow, by_head = (
        method(flow.network, sampling, CPU).look(image, None) for method in (FlowMethod, HeadMethod)
    )
    assert by_head.density().sum() == pytest.approx(1)
    apart = np.abs(by_flow.density() - by_head.density()).sum() / 2  # total variation
    assert 0 < apart < 0.15
    drawn = np.floor(by_head.draws(4000, 1, (1,))[0]).astype(int)
    shares = np.bincount(drawn[:, 1] // 8 * 4 + drawn[:, 0] // 8, minlength=16) / 4000
    blocks = by_head.density().reshape(4, 8, 4, 8).sum(axis=(1, 3)).ravel()
    assert shares == pytest.approx(blocks, abs=0.03)


@pytest.mark.parametrize(("away", "some"), [(9.0, True), (1000.0, False)])
def test_a_flow_that_misses_the_image_has_no_likelihood_there(truth, away, some):
    flow = small_flow()
    with torch.no_grad():
        list(flow.parameters())[-1].fill_(away)  # the bias of the velocity: all moves by it
    image = truth.image()
    view = FlowMethod(flow, PRESETS["quick"].sampling, CPU).look(image, None)
    assert view.mass == 0
    found, curve = density_values(view, image)
    assert math.isnan(found["nll"])  # not -inf, which would be the best of all
    assert (view.density().sum() > 0) == some
    assert np.isfinite([found["capture"], *curve]).all() == some
    assert np.isfinite(view.density()).all()


def test_nothing_to_find_gives_no_value(truth):
    image = replace(truth.image(), points=np.zeros((0, 2)))
    found, curve = density_values(DensityView(truth.density), image)
    assert {"nll", "top5", "capture", captured_key(0.2)} <= found.keys()
    assert np.isnan([*found.values(), *curve]).all()


def test_the_mean_capture_curve_is_over_the_images_that_have_one(truth, monkeypatch):
    monkeypatch.setattr("geocfm.evaluation.benchmark.scoring.PICTURED", 1)
    nothing = replace(truth, points=np.zeros((0, 2)))
    images, method = [truth, nothing], LatentDensity()
    scores = score_method(method, images, [5, 6], 1, 1, CPU, lambda *_, **__: None)
    assert math.isnan(scores.values["capture"][1])
    _, curve = density_values(method.look(truth.image(), truth), truth.image())
    assert scores.curve == pytest.approx(curve)


def test_larger_images_are_computed_between_every_second_pixel(still_flow):
    image = make_image(SyntheticSettings(size=100), 5).image()
    view = still_flow.look(image, None)
    col, row = np.floor(image.points).astype(int).T
    centres = np.stack([col, row], axis=1) + 0.5
    exact = view.log_density(centres)
    assert np.log(view.density()[row, col]) == pytest.approx(exact, abs=0.01)


def test_where_it_is_dense_every_pixel_is_computed_by_itself(one_thread, monkeypatch):
    """Between every second pixel a sharp density would be rounded off where it matters most."""
    flow = trained_flow(anchored=True)
    sampling = PRESETS["quick"].sampling
    image = Image(flow.channels, np.ones(flow.channels.shape[1:], bool), np.full((1, 2), 9.0))
    whole = FlowMethod(flow.network, sampling, CPU).look(image, None).density()
    monkeypatch.setattr(flow_method, "SMALL", 8)
    found = FlowMethod(flow.network, sampling, CPU).look(image, None).density()
    densest = found >= np.quantile(found, 1 - flow_method.DENSEST / 2)
    ratio = (found / whole)[densest]
    assert ratio == pytest.approx(ratio.mean(), rel=1e-4)  # but for the sum over the others
    assert np.abs(np.log(found / whole))[~densest].max() > 0.05


def test_oracles_know_how_the_image_was_made(truth):
    image = truth.image()
    happened, _ = density_values(LatentDensity().look(image, truth), image)
    known, _ = density_values(BayesDensity(64).look(image, truth), image)
    assert happened["nll"] < known["nll"] < math.log(SIZE**2)
    assert happened["top5"] >= known["top5"] > 0.05
    with pytest.raises(ValueError, match="how the image was made"):
        LatentDensity().look(image, None)


def test_redraws_are_others_in_each_image(truth):
    image, bayes = truth.image(), BayesDensity(8)
    first, again, other = (bayes.look(image, truth, seed).density() for seed in (5, 5, 6))
    assert (first == again).all()
    assert (first != other).any()


def test_the_noise_of_draws_is_none_of_a_training_step():
    for number in (0, 7):
        drawing = np.random.default_rng([*draw_seed(1, number), 0]).random()
        assert all(drawing != np.random.default_rng([1, step]).random() for step in range(20))


def test_on_apples_gpus_metrics_are_computed_on_the_cpu(truth):
    found = draw_values(truth.points[None], truth.points, SIZE, torch.device("mps"), ("cd",))
    assert found == {"cd": 0.0}


def test_metrics_of_draws_are_those_asked_for(truth):
    observed = truth.points
    same = draw_values(observed[None], observed, SIZE, CPU, ("cd", "f5"))
    assert same == {"cd": 0.0, "f5": 1.0}
    everything = draw_values(np.stack([observed, observed + 1.0]), observed, SIZE, CPU)
    assert everything.keys() == {"cd", "sinkhorn", "f5", "kde_nll"}
    assert 0 < everything["cd"] <= math.sqrt(2)  # the mean of none and of at most sqrt(2) each way


def test_a_flat_density_scores_as_chance(truth):
    view = DensityView(np.full((SIZE, SIZE), SIZE**-2.0))
    found, curve = density_values(view, truth.image())
    assert curve == pytest.approx(CURVE_AREAS)
    assert found[captured_key(0.2)] == pytest.approx(0.2)
    assert found["nll"] == pytest.approx(math.log(SIZE**2))
    assert found["top5"] == pytest.approx(0.05)
    assert found["capture"] == pytest.approx(0.5)


def test_the_kde_on_pixels_is_scipys():
    points = np.random.default_rng(3).normal((60, 50), (9, 12), (400, 2)) @ [[1, 0.2], [0, 1]]
    centres = np.stack(np.meshgrid(*[np.arange(128) + 0.5] * 2)).reshape(2, -1)
    expected = gaussian_kde(points.T)(centres).reshape(128, 128)
    found = kde_map(points, 128)
    assert found.sum() == pytest.approx(1)
    assert (
        np.abs(found - expected / expected.sum()).max() < 0.02 * found.max()
    )  # points count at their pixel's centre
    assert kde_map(np.array([[5.5, 7.5]]), 16).argmax() == 7 * 16 + 5


def test_methods_are_named_by_commas():
    assert choose_methods("all") == list(METHODS)
    assert choose_methods("all,rf") == list(METHODS)
    assert choose_methods("all", with_head=False) == [key for key in METHODS if key != HEAD]
    assert choose_methods("GeoCFM, rf") == ["rf", "geocfm", *ORACLES]
    with pytest.raises(UserError, match="Did you mean 'unet-seg'"):
        choose_methods("rf,unetseg")
    with pytest.raises(UserError, match="No method"):
        choose_methods(" , ")


def test_a_result_is_read_as_it_was_written(tmp_path: Path):
    written = result("rf", nll=plain([1.0, math.inf, math.nan, 2.0]))
    pictures = Pictures(
        density=np.ones((1, 4, 4), np.float32), draws=np.zeros((1, 2, 3, 2), np.float32)
    )
    save_result(tmp_path, written, pictures)
    found = load_result(tmp_path, "rf", settings())
    assert found.model_dump(mode="json") == written.model_dump(mode="json")
    assert found.values["nll"] == [1.0, "inf", None, 2.0]
    assert (load_pictures(tmp_path, "rf").density == 1).all()
    (tmp_path / "rf.json").write_text('{"key": "rf"')
    assert load_result(tmp_path, "rf", settings()) is None
    assert load_pictures(tmp_path, "gbdt") is None


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path):
    ensure_same(settings(), tmp_path)
    ensure_same(settings(), tmp_path)
    with pytest.raises(UserError, match=r"minutes was 2.0 and is 3.0; training images was 8"):
        ensure_same(settings(minutes=3.0, training_images=9), tmp_path)
    content = json.loads((tmp_path / "benchmark.json").read_text())
    assert content.pop("scoring") > 1  # a benchmark from before there was such a number
    (tmp_path / "benchmark.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="scored by another version"):
        ensure_same(settings(), tmp_path)
    (tmp_path / "benchmark.json").write_text("{}")
    with pytest.raises(UserError, match="cannot be read"):
        ensure_same(settings(), tmp_path)


def test_training_is_the_papers_but_for_the_budget():
    chosen = settings(preset="paper-synthetic", minutes=0.5).settings
    assert chosen.training == PRESETS["paper-synthetic"].training.model_copy(
        update={"minutes": 0.5, "preview_every": 0}
    )
    quick = settings().settings
    assert (quick.training.batch, quick.training.augment, quick.training.patience) == (4, False, 0)
    assert replace(settings().synthetic, size=220) == SyntheticSettings()
