"""No operation of the model leaves its device: all of it runs on ``meta``, and is watched.

No GPU is at hand in CI. A tensor made on the CPU, or an operation between two devices, would fail
or stall on one; here it fails on any machine. Exempt are the optimiser's counters, the check that
the loss is finite, the rejection of draws, how many points lie in each image of several for an
anchor, and which channels tell the process of single cells that a layer has data: they need values
and so are not run here.
"""

import pytest
import torch
from geocfm.model.flow import SOLVERS, flow_matching_loss, integrate, log_density
from geocfm.model.network import VelocityNetwork
from geocfm.model.settings import PRESETS
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

META = torch.device("meta")
SIZE, POINTS, CHANNELS = 37, 12, 3
CPU_NUMBER = torch.tensor(1.0)
CPU_INDEX = torch.tensor([0, 1])


class OnMeta(TorchDispatchMode):
    """Raises where an operation takes or makes a tensor of another device, and keeps a list."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self._check(f"{func} takes", (args, kwargs))
        made = func(*args, **(kwargs or {}))
        self._check(f"{func} makes", made)
        self.seen.add(str(func.overloadpacket))
        return made

    @staticmethod
    def _check(deed: str, values: object) -> None:
        for leaf in tree_leaves(values):
            if isinstance(leaf, torch.Tensor) and leaf.device != META:
                raise AssertionError(f"{deed} a tensor on {leaf.device}")


@pytest.fixture(params=list(PRESETS))
def network(request: pytest.FixtureRequest) -> VelocityNetwork:
    settings = PRESETS[request.param].network
    return VelocityNetwork(CHANNELS, settings.model_copy(update={"process": False})).to(META)


@pytest.fixture
def images(network: VelocityNetwork) -> torch.Tensor:
    count = 1 if network.settings.anchor else 2
    return torch.zeros(count, CHANNELS, SIZE, SIZE, device=META)


@pytest.fixture
def image() -> torch.Tensor:
    return torch.zeros(POINTS, dtype=torch.int64, device=META)


@pytest.fixture
def points() -> torch.Tensor:
    return torch.zeros(POINTS, 2, device=META)


def test_velocity_loss_and_backward(network, images, image, points):
    t, noise = torch.zeros(POINTS, device=META), torch.zeros(POINTS, 2, device=META)
    with OnMeta() as watch:
        maps = network.encode(images)
        loss = flow_matching_loss(
            lambda position, at: network.velocity(maps, position, at, image),
            network.to_flow(points),
            noise,
            t,
        )
        if maps.log_density is not None:
            loss = loss - maps.log_density.mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    assert loss.device == META
    assert loss.shape == ()
    learned = [p for p in network.parameters() if p.requires_grad]
    assert all(p.grad is not None and p.grad.device == META for p in learned)
    # the watch saw the way back through the head, the sampled features and the UNet
    assert {"aten.convolution", "aten.convolution_backward", "aten.index_put"} <= {
        name.rstrip("_") for name in watch.seen
    }
    norm = "layer" if network.settings.norm == "position" else "group"
    assert {f"aten.native_{norm}_norm_backward", "aten.mm"} <= watch.seen


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_integration(network, images, image, points, solver):
    with OnMeta() as watch, torch.no_grad():
        maps = network.encode(images)
        end = integrate(
            lambda where, t: network.velocity(maps, where, t, image),
            points,
            [0, 0.6, 1],
            SOLVERS[solver],
        )
        window = network.to_window(end)
    assert window.device == META
    assert window.shape == (POINTS, 2)
    assert "aten.index" in watch.seen


@pytest.mark.parametrize("solver", list(SOLVERS))
def test_density(network, images, image, points, solver):
    with OnMeta() as watch, torch.no_grad():
        maps = network.encode(images)
        found = log_density(
            lambda where, t: network.velocity(maps, where, t, image),
            points,
            [0, 0.6, 1],
            SOLVERS[solver],
        )
    assert found.device == META
    assert found.shape == (POINTS,)
    assert "aten.silu_backward" in watch.seen


@pytest.mark.parametrize(
    "deed",
    [
        lambda on_meta: torch.zeros(2),
        lambda on_meta: torch.tensor(0.5),
        lambda on_meta: torch.arange(3),
        lambda on_meta: on_meta + CPU_NUMBER,
        lambda on_meta: on_meta[CPU_INDEX],
        lambda on_meta: CPU_NUMBER.to(META),
        lambda on_meta: CPU_INDEX + 1,
        lambda on_meta: torch.lerp(on_meta, on_meta, CPU_NUMBER),
        lambda on_meta: torch.where(on_meta > 0, on_meta, CPU_NUMBER),
    ],
)
def test_the_watch_sees_another_device(deed):
    with pytest.raises(AssertionError, match="tensor on cpu"), OnMeta():
        deed(torch.zeros(4, 2, device=META))


def test_values_cannot_be_fetched_from_meta():
    """So a hidden ``.cpu()`` or ``.item()`` fails of itself."""
    on_meta = torch.zeros(1, device=META)
    for deed in (on_meta.cpu, on_meta.item, on_meta.numpy):
        with pytest.raises((NotImplementedError, RuntimeError, TypeError)), OnMeta():
            deed()


def test_the_watch_sees_it_on_the_way_back():
    class Leak(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            return value * 2

        @staticmethod
        def backward(ctx, slope):
            return slope * torch.tensor(2.0)

    value = torch.zeros(3, device=META, requires_grad=True)
    with pytest.raises(AssertionError, match="tensor on cpu"), OnMeta():
        Leak.apply(value).sum().backward()


def test_the_watch_sees_a_forgotten_buffer():
    """A constant that does not move with the network, as a plain attribute would not."""
    network = VelocityNetwork(CHANNELS, PRESETS["quick"].network).to(META)
    network.embed.frequencies = torch.ones(32)
    with pytest.raises(AssertionError, match="tensor on cpu"), OnMeta():
        network.embed(torch.zeros(3, device=META))
