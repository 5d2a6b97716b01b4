"""The closed-form flow to a density on a grid, against the sums written out and a Gaussian."""

import math

import pytest
import torch
from geocfm.model.anchor import FLOOR, Anchor, anchor_flow, make_anchor
from geocfm.model.flow import RK4, integrate, log_density, time_grid
from torch.distributions import MultivariateNormal

SCALE = math.sqrt(12)
LINEAR, WIDE = 1 / 6, 1 / 4  # variances of a cell of side 1


def densities(count: int, size: int, seed: int = 1) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(count, size, size, generator=generator, dtype=torch.float64)
    return logits.flatten(1).softmax(dim=1).view_as(logits)


def written_out(
    anchor: Anchor, number: int, x: torch.Tensor, t: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """One point (2,): sum_j g_j [c_j + (t s^2 - (1 - t)) / S (x - t c_j)], cell by cell."""
    row, column = torch.meshgrid(anchor.rows, anchor.columns, indexing="ij")
    centres = torch.stack([column.flatten(), row.flatten()], dim=1)
    spread = t**2 * anchor.variance + (1 - t) ** 2
    logs = torch.stack(
        [
            MultivariateNormal(t * centre, spread * torch.eye(2).double()).log_prob(x)
            for centre in centres
        ]
    )
    logs = logs + anchor.weights[number].flatten().log()
    share = logs.softmax(dim=0)[:, None]
    pull = (t * anchor.variance - (1 - t)) / spread
    return (share * (centres + pull * (x - t * centres))).sum(dim=0), logs.logsumexp(dim=0)


@pytest.mark.parametrize("variance", [LINEAR, WIDE])
@pytest.mark.parametrize(("count", "cell"), [(1, 1), (3, 2), (2, 3)])
def test_velocity_and_density_are_the_sums_over_cells(
    count: int, cell: int, variance: float
) -> None:
    anchor = make_anchor(densities(count, 10), cell, variance, SCALE)
    generator = torch.Generator().manual_seed(2)
    position = 2 * torch.randn(30, 2, generator=generator, dtype=torch.float64)
    t = torch.cat([torch.tensor([0.0, 1.0]), torch.rand(28, generator=generator)]).double()
    image = torch.randint(count, (30,), generator=generator)
    velocity, logs = anchor_flow(anchor, position, t, image)
    for n in range(30):
        expected, log = written_out(anchor, int(image[n]), position[n], t[n])
        torch.testing.assert_close(velocity[n], expected, atol=1e-9, rtol=1e-9)
        torch.testing.assert_close(logs[n], log, atol=1e-9, rtol=1e-9)


def test_cells_hold_the_mass_of_their_pixels() -> None:
    density = densities(1, 10)
    anchor = make_anchor(density, 4, WIDE, SCALE)
    assert anchor.weights.shape == (1, 3, 3)
    expected = density[0, 4:8, 8:].sum() * (1 - FLOOR) + FLOOR / 9
    torch.testing.assert_close(anchor.weights[0, 1, 2], expected)
    torch.testing.assert_close(anchor.weights.sum(), torch.tensor(1.0).double())
    # of the last cell, pixels 8 and 9 lie inside: its middle is 9 of 10
    torch.testing.assert_close(anchor.columns[2], torch.tensor((9 / 10 - 0.5) * SCALE).double())
    torch.testing.assert_close(anchor.columns[1], torch.tensor((6 / 10 - 0.5) * SCALE).double())
    assert anchor.variance == pytest.approx((4 / 10 * SCALE) ** 2 * WIDE)


def test_the_flow_carries_the_base_to_the_density() -> None:
    """The exact log density by the flow's own divergence is that of the mixture at t = 1."""
    anchor = make_anchor(densities(1, 8), 1, LINEAR, SCALE)
    generator = torch.Generator().manual_seed(3)
    base = torch.randn(200, 2, generator=generator, dtype=torch.float64)
    image, times = torch.zeros(200, dtype=torch.int64), time_grid(60, 4)

    def velocity(position: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        return anchor_flow(anchor, position, t, image)[0]

    end = integrate(velocity, base, times, RK4)
    assert (end.abs() < 0.6 * SCALE).all()
    found = log_density(velocity, end, times, RK4)
    _, expected = anchor_flow(anchor, end, torch.ones(200).double(), image)
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)


def test_far_from_all_mass_the_numbers_stay_finite() -> None:
    density = torch.zeros(1, 40, 40)
    density[0, 3, 5] = 1.0
    anchor = make_anchor(density, 1, LINEAR, SCALE)
    corner = torch.tensor([[1.7, 1.7], [30.0, -30.0], [-1.7, 1.7]])
    for t in (0.0, 0.5, 0.97, 1.0):
        velocity, logs = anchor_flow(
            anchor, corner, torch.full((3,), t), torch.zeros(3, dtype=torch.int64)
        )
        assert velocity.isfinite().all()
        assert logs.isfinite().all()


def test_an_image_without_points_takes_nothing_from_the_others() -> None:
    anchor = make_anchor(densities(3, 6), 1, LINEAR, SCALE)
    position, t = torch.ones(4, 2).double(), torch.full((4,), 0.5).double()
    image = torch.tensor([2, 0, 2, 0])
    velocity, _ = anchor_flow(anchor, position, t, image)
    for number in (0, 2):
        alone = Anchor(anchor.weights[number][None], anchor.rows, anchor.columns, anchor.variance)
        mine, _ = anchor_flow(alone, position[:1], t[:1], torch.zeros(1, dtype=torch.int64))
        torch.testing.assert_close(velocity[image == number], mine.expand(2, 2))


@pytest.mark.parametrize(("variance", "bumps"), [(LINEAR, 0.16), (WIDE, 0.03)])
def test_an_even_density_is_flat_between_the_cells(variance: float, bumps: float) -> None:
    anchor = make_anchor(torch.full((1, 20, 20), 1 / 400).double(), 1, variance, SCALE)
    side = ((torch.arange(40).double() + 0.5) / 200 - 0.1) * SCALE  # four cells
    position = torch.cartesian_prod(side, side)
    count = len(position)
    _, logs = anchor_flow(
        anchor, position, torch.ones(count).double(), torch.zeros(count, dtype=torch.int64)
    )
    assert (logs + 2 * math.log(SCALE)).abs().max() < bumps  # of a lattice of bumps: 1
    assert logs.mean().item() == pytest.approx(-2 * math.log(SCALE), abs=0.004)


def test_mixed_precision_leaves_the_anchor_alone() -> None:
    anchor = make_anchor(densities(1, 20).float(), 1, LINEAR, SCALE)
    position, image = torch.randn(50, 2), torch.zeros(50, dtype=torch.int64)
    t = torch.linspace(0, 1, 50)
    exact, _ = anchor_flow(anchor, position, t, image)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed, _ = anchor_flow(anchor, position, t, image)
    assert torch.equal(mixed, exact)
