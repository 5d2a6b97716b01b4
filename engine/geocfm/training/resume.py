"""The state of a run on disk: an interrupted run goes on from it as if nothing had happened.

Three safetensors files. ``state`` holds the weights and the moments of their gradients (of Muon's
matrices the first only), at most three times the model; it names the two models in the making that
belong to it, the averaged weights and the best.
Step i's randomness depends on (seed, i) alone, so no generator needs to be kept.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

import safetensors
import safetensors.torch
from torch import Tensor, nn

from geocfm.geo.writing import replace_file

STATE = "state.safetensors"
MODEL = re.compile(r"(?:averaged|best)-\d+\.safetensors")
MOMENTS = ("exp_avg", "exp_avg_sq")  # as torch's Adam calls them
_KEY = "run"

Tensors = dict[str, Tensor]


@dataclass(frozen=True)
class Snapshot:
    """Averaged weights at a moment of the run, and how good they were."""

    weights: Tensors
    iteration: int
    metrics: dict[str, float]


@dataclass(frozen=True)
class Position:
    """Where a run stands, but for its tensors."""

    iteration: int
    seconds: float
    smooth_loss: float
    without_gain: int
    next_validation: float
    log_bytes: int
    waited: float = 0.0


@dataclass(frozen=True)
class RunState:
    """All that a run needs to go on."""

    position: Position
    optimised: Tensors  # weights, and moments of their gradients
    averaged: Tensors
    best: Snapshot | None


def save_state(folder: Path, state: RunState) -> None:
    """Write the state; until the last rename the earlier one stands."""
    names = [_averaged_name(state.position.iteration)]
    _write(folder / names[0], state.averaged, {})
    best = None
    if state.best is not None:
        best = {"iteration": state.best.iteration, "metrics": state.best.metrics}
        names.append(_best_name(state.best.iteration))
        if not (folder / names[1]).exists():
            _write(folder / names[1], state.best.weights, {})
    said = {"position": asdict(state.position), "best": best}
    _write(folder / STATE, state.optimised, {_KEY: json.dumps(said)})
    _remove_models(folder, but=names)


def discard_state(folder: Path) -> None:
    """Remove a state that cannot be used, so that nothing of it is taken for a new run's."""
    (folder / STATE).unlink(missing_ok=True)
    _remove_models(folder, but=[])


def load_state(folder: Path, network: nn.Module) -> RunState | None:
    """The state, or None if there is none that can be read in full and fits the network."""
    try:
        with safetensors.safe_open(folder / STATE, framework="pt", device="cpu") as file:
            said = json.loads((file.metadata() or {})[_KEY])
            optimised = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        position, best = Position(**said["position"]), None
        if said["best"]:
            weights = safetensors.torch.load_file(folder / _best_name(said["best"]["iteration"]))
            best = Snapshot(weights, **said["best"])
        averaged = safetensors.torch.load_file(folder / _averaged_name(position.iteration))
        state = RunState(position, optimised, averaged, best)
        return state if _fits(state, network) else None
    except (OSError, safetensors.SafetensorError, KeyError, TypeError, ValueError):
        return None


def _fits(state: RunState, network: nn.Module) -> bool:
    expected = {name: tensor.shape for name, tensor in network.state_dict().items()}
    parameters = {name: parameter.shape for name, parameter in network.named_parameters()}
    learned = {n: p.shape for n, p in network.named_parameters() if p.requires_grad}
    moments = {f"{moment}.{n}": s for moment in MOMENTS for n, s in learned.items()}
    found = {name: tensor.shape for name, tensor in state.optimised.items()}
    first = {name: shape for name, shape in moments.items() if name.startswith(MOMENTS[0] + ".")}
    averages = [state.averaged] + ([state.best.weights] if state.best else [])
    whole = {**parameters, **first}.items() <= found.items() <= {**parameters, **moments}.items()
    return whole and all(
        {name: tensor.shape for name, tensor in weights.items()} == expected for weights in averages
    )


def _remove_models(folder: Path, but: list[str]) -> None:
    for path in folder.glob("*.safetensors"):
        if MODEL.fullmatch(path.name) and path.name not in but:
            path.unlink()


def _averaged_name(iteration: int) -> str:
    return f"averaged-{iteration}.safetensors"


def _best_name(iteration: int) -> str:
    return f"best-{iteration}.safetensors"


def _write(path: Path, tensors: Tensors, metadata: dict[str, str]) -> None:
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(safetensors.torch.save(tensors, metadata=metadata))
    replace_file(temporary, path)
