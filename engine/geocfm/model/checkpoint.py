"""One .safetensors file that describes itself: weights, and a card of all that applying it needs.

Beside the weights it holds the model's experience, under names of their own; files from before
that have none.

Loading reads tensors and JSON and never runs code from the file.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import safetensors
import safetensors.torch
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from geocfm.errors import UserError, hindrance
from geocfm.mistakes import shown
from geocfm.model.experience import PREFIX, ChannelLayout, Experience
from geocfm.model.network import VelocityNetwork
from geocfm.model.plausible import are_sound, impossible, read_json
from geocfm.model.settings import Settings, WindowSettings

FORMAT = 2  # 1 had a single network and nothing beside it
DAMAGED = "The file is damaged or was changed; train again or take another copy."
MADE_BY_TRAINING = "Choose a .safetensors file made by 'geocfm train', or copy it again."
FROM_ANOTHER_VERSION = ("extra_forbidden", "literal_error")
_KEY = "geocfm"  # safetensors metadata is text to text: one entry holds the card as JSON


class _Card(BaseModel):
    # a loss may be NaN; pydantic would write it as null, which is no number when read
    model_config = ConfigDict(frozen=True, extra="ignore", ser_json_inf_nan="constants")


class LayerCard(_Card):
    """One input layer, and how its values become channels."""

    name: str
    units: str = ""
    categorical: bool = False
    mean: float = 0.0
    std: float = 1.0
    classes: tuple[int, ...] = ()


_STARTS = {"process": "a Poisson process", "stack": "a Poisson process and a forest"}


class GridCard(_Card):
    """The training grid: where, and how large a cell is."""

    crs: str = Field(description="WKT")
    transform: tuple[float, float, float, float, float, float]
    height: int
    width: int

    @property
    def name(self) -> str:
        """The name of the CRS: the first quoted text of its WKT."""
        return self.crs.split('"')[1] if '"' in self.crs else self.crs


class SplitCard(_Card):
    """The tiles, and which of them trained, chose and never saw the model."""

    row_edges: tuple[int, ...]
    col_edges: tuple[int, ...]
    roles: tuple[tuple[Literal["train", "validation", "test"], ...], ...]


class EffortCard(_Card):
    """The raster of survey effort that occurrences were weighted by, and what became of them."""

    source: str
    floor: float = Field(description="lower effort counted as this")
    training: int = Field(description="occurrences on training tiles")
    floored: int = Field(description="of these, those below the floor")
    unknown: int = Field(description="occurrences without an effort above 0; of mean weight")
    effective: float = Field(
        description="so many training occurrences of equal weight tell as much"
    )


class OccurrenceCard(_Card):
    """What the model learned from."""

    source: str
    where: tuple[str, ...] = ()
    counts: dict[str, int] = {}
    effort: EffortCard | None = None


class MemberCard(_Card):
    """A further network of an ensemble."""

    seed: int
    iterations: int
    metrics: dict[str, float] = {}


class ModelCard(_Card):
    """Everything about a model but its weights."""

    format: int = FORMAT
    settings: Settings
    layers: tuple[LayerCard, ...]
    window_size: int
    grid: GridCard
    split: SplitCard
    occurrences: OccurrenceCard
    seed: int
    iterations: int
    metrics: dict[str, float] = {}
    others: tuple[MemberCard, ...] = Field((), description="members of an ensemble but the first")
    created: str
    versions: dict[str, str]
    provenance: dict[str, Any] = Field({}, description="the job and its inputs as they were")

    def sentences(self) -> list[str]:
        """The card for people."""
        seen = self.occurrences.counts.get("used", 0)
        filters = f" where {' and '.join(self.occurrences.where)}" if self.occurrences.where else ""
        columns = [_describe_layer(layer) for layer in self.layers]
        roles = [role for row in self.split.roles for role in row]
        parts = ", ".join(f"{roles.count(name)} {name}" for name in ("train", "validation", "test"))
        figures = ", ".join(
            f"{name.replace('_', ' ')} {value:.4f}" for name, value in self.metrics.items()
        )
        cell = math.hypot(self.grid.transform[0], self.grid.transform[3])
        return [
            f"GeoCFM model, preset '{self.settings.preset}', made {self.created} "
            f"with geocfm {self.versions.get('geocfm', '?')}.",
            f"Learned from {seen} occurrences in {self.occurrences.source}{filters}.",
            _describe_effort(self.occurrences.effort),
            self.searched(),
            *self._reach(),
            *[f"Layer {text}" for text in columns],
            f"Grid: {self.grid.height} rows x {self.grid.width} columns, cell size {cell:g}, "
            f"{self.grid.name}; "
            f"windows of {self.window_size} cells.",
            f"Tiles: {parts}. Seed {self.seed}, iteration {self.iterations}; "
            f"{figures or 'no figures'}.",
            *self._ensemble(),
            "To apply it, give rasters for these layers by name; the map is relative density, "
            "not the probability of a deposit.",
        ]

    def searched(self) -> str:
        """The ground that counted as evenly searched, in a sentence."""
        poor = (
            "ground where nobody has looked is rated low, whatever it holds; a model trained with "
            "--positive-only does not do this."
        )
        if not self.settings.is_local:
            return (
                "Searched ground: each window that is mapped counts as evenly searched, and all "
                "windows as equally rich, since nothing tells how they compare."
            )
        if self.settings.training.ground == "region":
            return f"Searched ground: all training tiles count as evenly searched, so {poor}"
        if self.settings.network.begins:
            return (
                "Searched ground: the network learned from the surroundings of known occurrences "
                f"alone, but it corrects {_STARTS[str(self.settings.network.start)]} of single "
                f"cells, for which all training tiles count as evenly searched: {poor}"
            )
        return (
            f"Searched ground: only the {self.window_size} cells around known occurrences count as "
            "evenly searched; districts without any have said nothing, and their density is what "
            "their layers let one expect."
        )

    def _reach(self) -> list[str]:
        if not self.settings.is_local:
            return []
        reach = self.settings.network.reach
        return [
            f"One intensity over the whole region: what it says of a cell depends on the layers "
            f"up to {reach} cells around it, and on nothing else."
        ]

    def _ensemble(self) -> list[str]:
        if not self.others:
            return []
        steps = ", ".join(str(other.iterations) for other in self.others)
        return [
            f"An ensemble of {1 + len(self.others)} networks; the others are of iterations {steps}."
        ]

    @property
    def channels(self) -> int:
        """Channels of the network's input."""
        return channel_layout(self.layers, self.settings.windows).channels


def channel_layout(layers: Sequence[LayerCard], windows: WindowSettings) -> ChannelLayout:
    """What each channel is that layers become."""
    classes = (len(layer.classes) if layer.categorical else None for layer in layers)
    return ChannelLayout(tuple(classes), windows.validity_channels)


def _describe_layer(layer: LayerCard) -> str:
    if layer.categorical:
        return f"{layer.name}: {len(layer.classes)} classes."
    unit = f" {layer.units}" if layer.units not in ("", "1") else ""
    return f"{layer.name}: mean {layer.mean:.6g}{unit}, standard deviation {layer.std:.6g}{unit}."


def _describe_effort(effort: EffortCard | None) -> str:
    if effort is None:
        return "No survey effort was given: it carries the bias of where people have looked."
    return (
        f"Occurrences were weighted by 1 / survey effort ({effort.source}, floored at "
        f"{effort.floor:.4g}): the {effort.training} on training tiles tell as much as "
        f"{effort.effective:.1f} of equal weight."
    )


@dataclass(frozen=True)
class Checkpoint:
    """A model ready to use, its card, and what it has seen if that was kept.

    An ensemble has several networks.
    """

    networks: tuple[VelocityNetwork, ...]
    card: ModelCard
    experience: Experience | None = None

    @property
    def network(self) -> VelocityNetwork:
        """The first of them."""
        return self.networks[0]


def checkpoint_bytes(
    members: Sequence[dict[str, torch.Tensor]],
    card: ModelCard,
    experience: Experience | None = None,
) -> bytes:
    """The file's content from the weights of each member; the caller writes it atomically."""
    tensors = {
        _prefix(number) + name: tensor.detach().cpu().contiguous()
        for number, weights in enumerate(members)
        for name, tensor in weights.items()
    }
    tensors |= experience.to_tensors() if experience is not None else {}
    return safetensors.torch.save(tensors, metadata={_KEY: card.model_dump_json()})


def _prefix(member: int) -> str:
    """Of the names of a member's weights: the first has them as they are."""
    return f"member.{member}." if member else ""


def load_card(path: str | Path) -> ModelCard:
    """The card alone, without reading the weights."""
    with _open(Path(path)) as file:
        return _parse_card(Path(path), file.metadata() or {})


def load_checkpoint(path: str | Path, device: torch.device) -> Checkpoint:
    """The model on its device, and its card."""
    path = Path(path)
    with _open(path) as file:
        card = _parse_card(path, file.metadata() or {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    seen = {name: tensors.pop(name) for name in list(tensors) if name.startswith(PREFIX)}
    members = _members(tensors, card)
    if not all(_fit(weights, card) for weights in members):
        raise UserError(
            f"The weights in {path} do not fit the network that its card describes.", DAMAGED
        )
    if not are_sound(tensors):
        raise UserError(f"Some weights in {path} are no numbers, or beyond all bounds.", DAMAGED)
    networks = []
    for weights in members:
        network = VelocityNetwork(card.channels, card.settings.network)
        network.load_state_dict(weights)
        networks.append(network.eval().requires_grad_(False).to(device))
    return Checkpoint(tuple(networks), card, _experience(path, seen, card))


def _members(tensors: dict[str, torch.Tensor], card: ModelCard) -> list[dict[str, torch.Tensor]]:
    """The weights of each member by their own names; what is nobody's stays with the first."""
    found: list[dict[str, torch.Tensor]] = [{} for _ in range(1 + len(card.others))]
    numbers = {str(number): number for number in range(1, len(found))}
    for name, tensor in tensors.items():
        word, _, rest = name.partition(".")
        number, _, own = rest.partition(".")
        if word == "member" and number in numbers:
            found[numbers[number]][own] = tensor
        else:
            found[0][name] = tensor
    return found


def _experience(path: Path, tensors: dict[str, torch.Tensor], card: ModelCard) -> Experience | None:
    if not tensors:
        return None
    try:
        return Experience.from_tensors(tensors, channel_layout(card.layers, card.settings.windows))
    except ValueError:
        raise UserError(
            f"What {path} holds of the model's experience does not fit its card.", DAMAGED
        ) from None


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    if not path.is_file():
        raise UserError(
            f"There is no checkpoint at {path}.", "Check the path; a checkpoint is a file."
        )
    try:
        path.open("rb").close()  # says more of why it cannot be opened than safetensors does
        with safetensors.safe_open(path, framework="pt", device="cpu") as file:
            yield file
    except (safetensors.SafetensorError, OSError) as error:
        held = hindrance(path, error)
        if held is not None:
            raise held from None
        if _is_pickle(path):
            raise UserError(
                f"{path} is a PyTorch pickle, which could run code; GeoCFM does not load those.",
                MADE_BY_TRAINING,
            ) from None
        raise UserError(
            f"{path} cannot be read as a GeoCFM checkpoint.",
            f"It is damaged, incomplete, or not a .safetensors file. {MADE_BY_TRAINING}",
        ) from None


def _is_pickle(path: Path) -> bool:
    """Whether it looks like what pickle or torch.save writes; nothing in it is opened."""
    try:
        with path.open("rb") as file:
            start = file.read(9)
        # pickles begin so since protocol 2; a damaged .safetensors file may, with { at byte 8
        if start[:1] == b"\x80" and start[8:] != b"{":
            return True
        with zipfile.ZipFile(path) as archive:
            return any(name.endswith("data.pkl") for name in archive.namelist())
    except (zipfile.BadZipFile, OSError):
        return False


def _fit(tensors: dict[str, torch.Tensor], card: ModelCard) -> bool:
    """Whether the weights are the network's, found out without the memory a lying card asks for."""
    if card.settings.network.head_depth > len(tensors):  # every layer of the head has weights
        return False
    try:
        with torch.device("meta"):
            expected = VelocityNetwork(card.channels, card.settings.network).state_dict()
    except (RuntimeError, TypeError, OverflowError):  # sizes that cannot even be counted
        return False
    return tensors.keys() == expected.keys() and all(
        tensor.shape == expected[name].shape and tensor.dtype == expected[name].dtype
        for name, tensor in tensors.items()
    )


def _parse_card(path: Path, metadata: dict[str, str]) -> ModelCard:
    try:
        content: Any = read_json(metadata[_KEY])
        made_for = int(content["format"])
        if made_for > FORMAT:
            raise UserError(
                f"{path} was made by a newer GeoCFM (format {shown(made_for)}, this one reads "
                f"{FORMAT}).",
                "Update GeoCFM.",
            )
        card = ModelCard.model_validate(content)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
        setting = _unknown_setting(error)
        if setting:
            raise UserError(
                f"{path} has a setting that this GeoCFM does not know: {setting}.",
                "It is from another version: if that is a newer one, update; else train it again.",
            ) from None
        raise UserError(
            f"{path} is a .safetensors file, but not a GeoCFM checkpoint.", MADE_BY_TRAINING
        ) from None
    wrong = impossible(card)
    if wrong:
        raise UserError(f"The card in {path} cannot be right: it tells of {wrong}.", DAMAGED)
    return card


def _unknown_setting(error: Exception) -> str:
    """The setting, or the value of one, that only another version can have written; else empty."""
    if not isinstance(error, ValidationError):
        return ""
    unknown = [
        ".".join(map(str, mistake["loc"]))
        for mistake in error.errors()
        if mistake["loc"][:1] == ("settings",) and mistake["type"] in FROM_ANOTHER_VERSION
    ]
    return unknown[0] if unknown else ""
