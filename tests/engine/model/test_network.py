"""What points read from the feature map, the time embedding, the heads and the velocity."""

import math

import numpy as np
import pytest
import torch
from geocfm.model.anchor import anchor_flow
from geocfm.model.network import (
    ATTENTIONS,
    FeatureMap,
    TimeEmbedding,
    VelocityNetwork,
    mlp_head,
    residual_head,
    sample_features,
)
from geocfm.model.process import QUANTILES
from geocfm.model.score import PixelScore
from geocfm.model.settings import PRESETS, NetworkSettings
from scipy.ndimage import uniform_filter
from torch import nn
from torch.nn import functional

SMALL = NetworkSettings(width=8, depth=2, features=6, head_width=16, head_depth=2)


def feature_map(features: torch.Tensor) -> FeatureMap:
    count, depth, height, width = features.shape
    rows = torch.stack([plane.flatten() for plane in features.transpose(0, 1)], dim=1)
    assert rows.shape == (count * height * width, depth)
    return FeatureMap(rows, features.mean(dim=(2, 3)), (height, width), (height, width))


def grid_sample(features: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Features (D, H, W) at points (N, 2) in [0, 1]^2, by torch itself."""
    found = functional.grid_sample(
        features[None],
        (2 * points - 1)[None, None],
        mode="bilinear",
        padding_mode="border",
        align_corners=False,
    )
    return found[0, :, 0].T


def expected_features(
    features: torch.Tensor, points: torch.Tensor, image: torch.Tensor
) -> torch.Tensor:
    expected = torch.empty(len(points), features.shape[1], dtype=features.dtype)
    for number in range(len(features)):
        mine = image == number
        expected[mine] = grid_sample(features[number], points[mine])
    return expected


def trained_like(channels: int, settings: NetworkSettings) -> VelocityNetwork:
    """A network whose last layers are not zero any more."""
    torch.manual_seed(5)
    network = VelocityNetwork(channels, settings)
    nn.init.normal_(network.head[-1].weight)
    if settings.density:
        for layer in (network.score.cells, network.score.pixels):
            nn.init.normal_(layer.weight, std=0.3)
    return network.eval()


@pytest.mark.parametrize("counts", [(17, 0, 40), (1, 1, 1)])
def test_features_are_those_of_grid_sample(counts):
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(3, 5, 7, 11, generator=generator, dtype=torch.float64)
    image = torch.repeat_interleave(torch.arange(3), torch.tensor(counts))
    image = image[torch.randperm(len(image), generator=generator)]
    # far outside, too: a base point often is
    points = 3 * torch.rand(len(image), 2, generator=generator, dtype=torch.float64) - 1
    found = sample_features(feature_map(features), points, image)
    torch.testing.assert_close(found, expected_features(features, points, image))


def test_features_at_corners_edges_and_centres():
    features = torch.arange(2 * 6, dtype=torch.float64).reshape(1, 2, 2, 3)
    points = torch.tensor(
        [[0, 0], [1, 1], [0.5, 0], [1 / 6, 0.25], [0.5, 0.75], [5 / 6, 0.75], [1 / 3, 0.5]]
    ).double()
    image = torch.zeros(len(points), dtype=torch.int64)
    found = sample_features(feature_map(features), points, image)
    torch.testing.assert_close(found, expected_features(features, points, image))
    by_hand = torch.tensor([0.0, 5.0, 1.0, 0.0, 4.0, 5.0, 2.0]).double()
    torch.testing.assert_close(found[:, 0], by_hand)


def test_slopes_of_features_are_those_of_grid_sample():
    """The density is exact only if the divergence is: slopes inside, none beyond the border."""
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(2, 4, 6, 5, generator=generator, dtype=torch.float64)
    image = torch.arange(50) % 2
    points = 2 * torch.rand(50, 2, generator=generator, dtype=torch.float64) - 0.5
    weights = torch.randn(50, 4, generator=generator, dtype=torch.float64)

    def slope(sample) -> torch.Tensor:
        where = points.clone().requires_grad_()
        (found,) = torch.autograd.grad((sample(where) * weights).sum(), where)
        return found

    ours = slope(lambda where: sample_features(feature_map(features), where, image))
    torchs = slope(lambda where: expected_features(features, where, image))
    torch.testing.assert_close(ours, torchs)
    outside = (points < 0) | (points > 1)
    assert outside.any()
    assert (ours[outside] == 0).all()


def test_time_embedding_is_sinusoids_of_1000_t():
    embed = TimeEmbedding(64)
    found = embed(torch.tensor([0.0, 0.37], dtype=torch.float64))
    assert found.shape == (2, 64)
    rates = [1000 * 10_000 ** (-k / 31) for k in range(32)]
    expected = [[f(t * rate) for f in (math.sin, math.cos) for rate in rates] for t in (0, 0.37)]
    torch.testing.assert_close(found, torch.tensor(expected).double(), atol=1e-4, rtol=0)


def test_time_embedding_tells_times_apart():
    t = torch.linspace(0, 1, 41)
    found = TimeEmbedding(64)(t)
    assert (found[:, :32].amax(dim=0) - found[:, :32].amin(dim=0) > 0.09).all()
    apart = torch.cdist(found, found) + 10 * torch.eye(41)
    assert apart.min() > 1


def test_residual_head_has_the_layers_of_the_table():
    head = residual_head(130, 256, 3)
    assert [type(layer).__name__ for layer in head] == [
        "Linear",
        *["_HeadBlock"] * 3,
        "LayerNorm",
        "Linear",
    ]
    block = (256 * 256 + 256) * 2 + 2 * 256
    count = (130 * 256 + 256) + 3 * block + 2 * 256 + (256 * 2 + 2)
    assert sum(p.numel() for p in head.parameters()) == count


def test_residual_head_computes_what_the_paper_says():
    torch.manual_seed(3)
    head = residual_head(7, 12, 2)
    nn.init.normal_(head[-1].weight)
    found = head(torch.linspace(-1, 1, 35).reshape(5, 7))
    w = {name: value.detach() for name, value in head.named_parameters()}

    def linear(hidden: torch.Tensor, name: str) -> torch.Tensor:
        return hidden @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(hidden: torch.Tensor, name: str) -> torch.Tensor:
        centred = hidden - hidden.mean(dim=1, keepdim=True)
        scaled = centred / (centred.square().mean(dim=1, keepdim=True) + 1e-5).sqrt()
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def silu(hidden: torch.Tensor) -> torch.Tensor:
        return hidden * torch.sigmoid(hidden)

    hidden = linear(torch.linspace(-1, 1, 35).reshape(5, 7), "0")
    for block in "12":
        inner = linear(silu(norm(hidden, f"{block}.norm")), f"{block}.first")
        hidden = hidden + linear(silu(inner), f"{block}.second")
    torch.testing.assert_close(found, linear(norm(hidden, "3"), "4"))


def test_mlp_head_has_the_layers_of_the_table():
    head = mlp_head(194, 256, 3)
    assert [type(layer).__name__ for layer in head] == [*["Linear", "SiLU"] * 3, "Linear"]
    shapes = [tuple(layer.weight.shape) for layer in head if isinstance(layer, nn.Linear)]
    assert shapes == [(256, 194), (256, 256), (256, 256), (2, 256)]


@pytest.mark.parametrize("preset", list(PRESETS))
def test_a_new_network_moves_points_as_its_anchor_does_or_not_at_all(preset):
    network = VelocityNetwork(2, PRESETS[preset].network)
    maps = network.encode(torch.randn(2, 2, 24, 24))
    position, t, image = torch.randn(9, 2), torch.rand(9), torch.arange(9) % 2
    velocity = network.velocity(maps, position, t, image)
    assert velocity.shape == (9, 2)
    if maps.anchor is None:
        assert (velocity == 0).all()
    else:
        assert torch.equal(velocity, anchor_flow(maps.anchor, position, t, image)[0])
        assert velocity.std() > 0.1


@pytest.mark.parametrize("coordinates", ["centred", "unit"])
@pytest.mark.parametrize("context", ["pooled", "none"])
def test_the_head_reads_local_features_place_time_and_context(coordinates, context):
    settings = SMALL.model_copy(update={"coordinates": coordinates, "context": context})
    torch.manual_seed(4)
    network = VelocityNetwork(3, settings).eval()
    assert network.head[0].in_features == 6 + 2 + 64 + (6 if context == "pooled" else 0)
    network.head = nn.Sequential(nn.Identity())
    images, t = torch.randn(2, 3, 20, 20), torch.rand(30)
    image, window = torch.arange(30) % 2, torch.rand(30, 2) * 1.4 - 0.2
    position = (window - 0.5) * math.sqrt(12) if coordinates == "centred" else window
    with torch.no_grad():
        read = network.velocity(network.encode(images), position, t, image)
        features = network.unet(images)
    local = expected_features(features, window, image)
    parts = [local, position, TimeEmbedding(64)(t)]
    if context == "pooled":
        parts.append(features.mean(dim=(2, 3))[image])
    torch.testing.assert_close(read, torch.cat(parts, dim=1), atol=2e-5, rtol=1e-4)


def test_centred_coordinates_give_a_uniform_window_unit_variance():
    network = VelocityNetwork(1, SMALL)
    side = (torch.arange(1000, dtype=torch.float64) + 0.5) / 1000
    points = torch.stack([side, side.flip(0)], dim=1)
    flow = network.to_flow(points)
    assert flow.mean(dim=0).abs().max() < 1e-12
    torch.testing.assert_close(
        flow.var(dim=0, correction=0), torch.ones(2).double(), rtol=1e-5, atol=0
    )
    torch.testing.assert_close(network.to_window(flow), points)
    assert network.scale == pytest.approx((flow[-1, 0] - flow[0, 0]).item() / 0.999)


def test_unit_coordinates_are_the_papers():
    network = VelocityNetwork(1, SMALL.model_copy(update={"coordinates": "unit"}))
    points = torch.rand(5, 2)
    assert torch.equal(network.to_flow(points), points)
    assert torch.equal(network.to_window(points), points)
    assert network.scale == 1


def test_velocity_depends_on_the_own_image_only():
    network = trained_like(2, SMALL)
    images = torch.from_numpy(np.random.default_rng(6).random((3, 2, 18, 18), np.float32))
    position, t = torch.randn(24, 2), torch.rand(24)
    image = torch.arange(24) % 3
    with torch.no_grad():
        together = network.velocity(network.encode(images), position, t, image)
        for number in range(3):
            mine = image == number
            alone = network.velocity(
                network.encode(images[number : number + 1]),
                position[mine],
                t[mine],
                torch.zeros(int(mine.sum()), dtype=torch.int64),
            )
            torch.testing.assert_close(alone, together[mine], atol=1e-5, rtol=1e-4)
    assert together.std() > 0.01


ANCHORED = SMALL.model_copy(update={"norm": "position", "stem": 2, "density": True, "anchor": 2})


@pytest.mark.parametrize("size", [24, 23])
def test_the_density_is_a_softmax_over_the_pixels_with_data(size):
    network = trained_like(2, ANCHORED)
    footprints = torch.rand(3, size, size) > 0.3
    with torch.no_grad():
        maps = network.encode(torch.randn(3, 2, size, size), footprints)
    density = maps.log_density.exp()
    assert density.shape == (3, size, size)
    assert (density[~footprints] == 0).all()
    assert (density[footprints] > 0).all()
    torch.testing.assert_close(density.sum(dim=(1, 2)), torch.ones(3))
    cells = -(-size // 2)
    assert maps.anchor.weights.shape == (3, cells, cells)
    assert maps.cells == (cells, cells)


def test_a_new_network_leaves_the_density_to_its_start():
    torch.manual_seed(2)
    settings = PRESETS["quick"].network.model_copy(update={"start": "process"})
    network = VelocityNetwork(3, settings).eval()
    images, footprints = torch.randn(2, 3, 32, 32), torch.ones(2, 32, 32, dtype=torch.bool)
    footprints[0, :9] = False
    network.start.process.values.copy_(torch.linspace(-9, 9, QUANTILES).expand(3, -1))
    network.start.process.ranks.copy_(network.start.process.values)
    network.start.process.linear.copy_(torch.tensor([0.5, -1.0, 0.2]))
    network.start.process.intercept.fill_(-7.0)
    network.start.process.highest.fill_(99.0)
    with torch.no_grad():
        maps = network.encode(images, footprints)
    logs = -7 + (images * torch.tensor([0.5, -1.0, 0.2])[:, None, None]).sum(1)
    share = torch.where(footprints, logs.exp(), 0.0)
    total = share.sum((1, 2))
    torch.testing.assert_close(maps.log_intensity, logs)
    torch.testing.assert_close(maps.log_density.exp(), share / total[:, None, None])


@pytest.mark.parametrize("size", [12, 11])
def test_the_pixels_of_a_cell_differ_by_what_sets_it_apart_from_those_around(size):
    """Features that hold the pixels of their cells come back less the mean of nine cells."""
    score = PixelScore(SMALL.model_copy(update={"stem": 2, "features": 4})).requires_grad_(False)
    score.pixels.weight[:, :, 0, 0] = torch.eye(4)
    image = torch.randn(1, 1, 12, 12)
    logits = score(functional.pixel_unshuffle(image, 2), torch.Size([size, size]))
    expected = np.empty((12, 12))
    for row, col in np.ndindex(2, 2):  # pixels at the same place of their cells
        mine = image[0, 0, row::2, col::2].numpy()
        expected[row::2, col::2] = mine - uniform_filter(mine, 3, mode="nearest")
    np.testing.assert_allclose(logits[0], expected[:size, :size], atol=1e-5)


@pytest.mark.parametrize("size", [12, 11])
def test_the_logits_of_cells_are_read_between_them(size):
    """On each axis linear between the centres of cells, and level beyond the outermost."""
    score = PixelScore(SMALL.model_copy(update={"stem": 4, "features": 2})).requires_grad_(False)
    score.cells.weight[:, :, 0, 0], score.cells.bias[:] = torch.tensor([1.0, -2.0]), 0.5
    features = torch.randn(1, 2, 3, 3)
    cells = (features[0, 0] - 2 * features[0, 1] + 0.5).numpy()
    pixels, centres = np.arange(12) + 0.5, 4 * np.arange(3) + 2
    rows = np.stack([np.interp(pixels, centres, column) for column in cells.T], axis=1)
    expected = np.stack([np.interp(pixels, centres, row) for row in rows])
    logits = score(features, torch.Size([size, size]))
    np.testing.assert_allclose(logits[0], expected[:size, :size], atol=1e-5)


def test_an_anchors_head_reads_its_velocity_and_its_density():
    network = VelocityNetwork(2, ANCHORED).eval()
    assert network.head[0].in_features == 2 * 6 + 2 + 64 + 3
    network.head = nn.Sequential(Read(slice(-3, None)))
    position, t, image = torch.randn(30, 2), torch.rand(30), torch.arange(30) % 2
    with torch.no_grad():
        maps = network.encode(torch.randn(2, 2, 20, 20))
        anchored, logs = anchor_flow(maps.anchor, position, t, image)
        moved = network.velocity(maps, position, t, image)
    torch.testing.assert_close(moved, 2 * anchored + (logs / 10).clamp(-1, 1).unsqueeze(1))


class Read(nn.Module):
    """Stands in for the head: gives the velocity back, plus the log density it is told."""

    def __init__(self, part):
        super().__init__()
        self.part = part

    def forward(self, inputs):
        told = inputs[:, self.part]
        return told[:, :2] + told[:, 2:]


def test_the_anchor_learns_by_likelihood_alone():
    """The flow's loss must not bend the density it is anchored on."""
    network = trained_like(2, ANCHORED).train()
    maps = network.encode(torch.randn(1, 2, 20, 20))
    image = torch.zeros(8, dtype=torch.int64)
    network.velocity(maps, torch.randn(8, 2), torch.rand(8), image).square().sum().backward()
    assert all(weight.grad is None for weight in network.score.parameters())
    assert network.unet.final.weight.grad.abs().sum() > 0


@pytest.mark.parametrize("size", [20, 21])
def test_a_stem_reads_features_where_the_pixels_are(size):
    """Features of cells of two pixels, at their own place: the field x + 2 y comes back."""
    network = VelocityNetwork(1, SMALL.model_copy(update={"stem": 2}))
    cells = -(-size // 2)
    side = (torch.arange(cells).double() + 0.5) * 2 / size  # centres, as shares of the window
    field = side[None, :] + 2 * side[:, None]
    maps = FeatureMap(
        field.reshape(-1, 1), field.mean().reshape(1, 1), (cells, cells), (size, size), 2
    )
    points = 0.1 + 0.8 * torch.rand(50, 2).double()
    found = sample_features(maps, points, torch.zeros(50, dtype=torch.int64))
    torch.testing.assert_close(found[:, 0], points[:, 0] + 2 * points[:, 1])
    assert network.encode(torch.zeros(1, 1, size, size)).cells == (cells, cells)


def test_film_scales_and_shifts_what_the_head_makes_of_its_inputs():
    """By hand, and not at all with a new network, which is one without context."""
    settings = SMALL.model_copy(update={"context": "film"})
    network, images = VelocityNetwork(2, settings), torch.randn(3, 2, 18, 18)
    position, t, image = torch.randn(12, 2), torch.rand(12), torch.arange(12) % 3
    with torch.no_grad():
        network.head[-1].weight.normal_()
        maps = network.encode(images)
        plain = VelocityNetwork(2, SMALL.model_copy(update={"context": "none"}))
        plain.load_state_dict(network.state_dict(), strict=False)
        untouched = network.velocity(maps, position, t, image)
        torch.testing.assert_close(untouched, plain.velocity(maps, position, t, image))
        network.film.weight.normal_()
        found = network.velocity(maps, position, t, image)
        inputs = torch.cat(
            [sample_features(maps, network.to_window(position), image), position, network.embed(t)],
            dim=1,
        )
        scale, shift = (maps.context @ network.film.weight.T)[image].split(16, dim=1)
        hidden = network.head[0](inputs) * (1 + scale) + shift
        torch.testing.assert_close(found, network.head[1:](hidden))
    assert (found - untouched).abs().max() > 0.01


def test_attention_is_a_mean_over_the_places_it_has_learned():
    network = trained_like(2, SMALL.model_copy(update={"context": "attention"}))
    images = torch.randn(3, 2, 16, 16)
    with torch.no_grad():
        maps = network.encode(images)
        features = network.unet(images)
        looks = network.attend(features)
    assert network.head[0].in_features == 6 + 2 + 64 + ATTENTIONS * 6
    for number in range(3):
        for look in range(ATTENTIONS):
            weights = looks[number, look].exp() / looks[number, look].exp().sum()
            expected = (weights * features[number]).sum(dim=(1, 2))
            found = maps.context[number, 6 * look : 6 * (look + 1)]
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(("size", "stem"), [(24, 1), (26, 2), (23, 1)])
def test_the_head_reads_all_levels_at_the_point(size, stem):
    network = trained_like(2, SMALL.model_copy(update={"levels": "all", "stem": stem}))
    assert network.head[0].in_features == 4 * 6 + 2 + 64
    network.head = nn.Sequential(nn.Identity())
    images, window = torch.randn(2, 2, size, size), torch.rand(20, 2)
    image = torch.arange(20) % 2
    with torch.no_grad():
        maps = network.encode(images)
        read = network.velocity(maps, network.to_flow(window), torch.rand(20), image)
        levels = network.unet.pyramid(images)
    assert [level.shape[-1] for level in levels] == [
        maps.cells[0],
        *(m.cells[0] for m in maps.coarser),
    ]
    for number, (project, level) in enumerate(zip(network.coarser, levels[1:], strict=True)):
        values = functional.silu(project(level)).detach()
        share = size / (stem * 2 ** (number + 1)) / level.shape[-1]  # the last cells may be cut off
        expected = expected_features(values, window * share, image)
        found = read[:, -12:][:, 6 * number : 6 * (number + 1)]
        torch.testing.assert_close(found, expected, atol=2e-5, rtol=1e-4)


def test_a_new_head_says_nothing_and_can_learn() -> None:
    head = PixelScore(NetworkSettings(norm="position", stem=4, features=8, depth=2, density=True))
    logits = head(torch.randn(2, 8, 5, 6), torch.Size((20, 24)))
    assert (logits == 0).all()
    (logits * torch.randn(2, 20, 24)).sum().backward()
    assert all((weight.grad != 0).all() for weight in head.parameters())
