"""Checkpoints that are none, that lie, or that belong to other layers."""

from __future__ import annotations

import io
import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from small_data import SmallRegion

Refused = Callable[..., str]
Spoil = Callable[[bytes], bytes]
Header = dict[str, Any]
Tensors = dict[str, torch.Tensor]

OUT = {"map": "map.tif", "sample": "points.gpkg", "evaluate": "evaluation"}
FIRST, SECOND = "unet.final.bias", "unet.final.weight"


def header(change: Callable[[Header], object], stated: int | None = None) -> Spoil:
    """Change the JSON that tells where the tensors are, and the length it claims to have."""

    def spoil(content: bytes) -> bytes:
        (length,) = struct.unpack("<Q", content[:8])
        head = json.loads(content[8 : 8 + length])
        change(head)
        text = json.dumps(head).encode()
        return struct.pack("<Q", stated or len(text)) + text + content[8 + length :]

    return spoil


def card(*path: str | int, value: Any) -> Spoil:
    """Change one entry of the card."""

    def change(head: Header) -> None:
        content = json.loads(head["__metadata__"]["geocfm"])
        *parents, last = path
        place = content
        for key in parents:
            place = place[key]
        place[last] = value
        head["__metadata__"]["geocfm"] = json.dumps(content)

    return header(change)


def made_before(content: bytes) -> bytes:
    """Give the card the settings that models had before the map was one intensity."""
    changed = card("settings", "network", "count", value=True)(content)
    changed = card("settings", "network", "norm", value="group")(changed)
    return card("settings", "sampling", "views", value=2)(changed)


def card_text(change: Callable[[str], str]) -> Spoil:
    """Change the card as text."""

    def spoil(head: Header) -> None:
        head["__metadata__"]["geocfm"] = change(head["__metadata__"]["geocfm"])

    return header(spoil)


def nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def tensors(change: Callable[[Tensors], Tensors]) -> Spoil:
    def spoil(content: bytes) -> bytes:
        (length,) = struct.unpack("<Q", content[:8])
        metadata = json.loads(content[8 : 8 + length])["__metadata__"]
        return safetensors.torch.save(change(safetensors.torch.load(content)), metadata)

    return spoil


def weights(change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    return tensors(
        lambda found: {
            name: change(tensor) if tensor.is_floating_point() else tensor
            for name, tensor in found.items()
        }
    )


def experience(name: str, change: Callable[[torch.Tensor], torch.Tensor]) -> Spoil:
    name = f"experience.{name}"
    return tensors(lambda found: {**found, name: change(found[name]).contiguous()})


def saved_by_torch(**how: Any) -> Spoil:
    def spoil(content: bytes) -> bytes:
        file = io.BytesIO()
        torch.save(safetensors.torch.load(content), file, **how)
        return file.getvalue()

    return spoil


UNREADABLE = ("cannot be read as a GeoCFM checkpoint", "made by 'geocfm train'")
FOREIGN = ("is a .safetensors file, but not a GeoCFM checkpoint", "made by 'geocfm train'")
PICKLE = ("is a PyTorch pickle, which could run code; GeoCFM does not load those", "Choose")
UNFIT = ("The weights in", "do not fit the network that its card describes", "another copy")
UNSEEN = ("holds of the model's experience does not fit its card", "another copy")
WRONG = ("cannot be right: it tells of", "another copy")

BAD: dict[str, tuple[Spoil, tuple[str, ...]]] = {
    "empty": (lambda content: b"", UNREADABLE),
    "truncated": (lambda content: content[: len(content) // 2], UNREADABLE),
    "lacks a byte": (lambda content: content[:-1], UNREADABLE),
    "text": (lambda content: b"not a model", UNREADABLE),
    "header longer than the file": (header(lambda head: None, stated=10**7), UNREADABLE),
    "header of absurd length": (header(lambda head: None, stated=2**63 - 1), UNREADABLE),
    "tensors that overlap": (
        header(lambda head: head[FIRST].update(data_offsets=head[SECOND]["data_offsets"])),
        UNREADABLE,
    ),
    "a tensor beyond the end": (
        header(lambda head: head[FIRST].update(data_offsets=[10**12, 10**12 + 64])),
        UNREADABLE,
    ),
    "a tensor of absurd shape": (
        header(lambda head: head[FIRST].update(shape=[10**6, 10**6])),
        UNREADABLE,
    ),
    "a tensor that is not told of": (header(lambda head: head.pop(FIRST)), UNREADABLE),
    "pickle": (lambda content: pickle.dumps({"model": 1}), PICKLE),
    "torch.save": (saved_by_torch(), PICKLE),
    "torch.save of old": (saved_by_torch(_use_new_zipfile_serialization=False), PICKLE),
    "foreign": (header(lambda head: head.update(__metadata__={"format": "pt"})), FOREIGN),
    "without a grid": (card("grid", value=None), FOREIGN),
    "newer": (card("format", value=99), ("made by a newer GeoCFM (format 99", "Update GeoCFM")),
    "with a new setting": (
        card("settings", "network", "attention", value=4),
        ("has a setting that this GeoCFM does not know: settings.network.attention", "newer"),
    ),
    "with a new value of a setting": (
        card("settings", "sampling", "solver", value="dopri5"),
        ("does not know: settings.sampling.solver", "It is from another version"),
    ),
    "with a network's setting of before": (
        card("settings", "network", "count", value=True),
        ("has a setting that this GeoCFM does not know: settings.network.count",),
    ),
    "with a setting of draws of before": (
        card("settings", "sampling", "views", value=2),
        ("has a setting that this GeoCFM does not know: settings.sampling.views",),
    ),
    "of before, with a density head over windows": (made_before, ("does not know: settings",)),
    "a density head that looks over windows": (
        card("settings", "network", "norm", value="group"),
        FOREIGN,
    ),
    "vast network": (card("settings", "network", "width", value=8 * 10**8), UNFIT),
    "deep network": (card("settings", "network", "head_depth", value=10**9), UNFIT),
    "other network": (card("settings", "network", "features", value=8), UNFIT),
    "whole numbers for weights": (weights(lambda tensor: tensor.to(torch.int32)), UNFIT),
    "weights that are no numbers": (
        weights(lambda tensor: tensor * torch.nan),
        ("Some weights in", "are no numbers", "train again"),
    ),
    "experience of other channels": (experience("references", lambda t: t[:, 1:]), UNSEEN),
    "experience of nothing": (experience("references", lambda t: t[:0]), UNSEEN),
    "experience that is no numbers": (experience("references", lambda t: t * torch.nan), UNSEEN),
    "experience in whole numbers": (experience("references", torch.Tensor.int), UNSEEN),
    "no radius of experience": (experience("radius", torch.zeros_like), UNSEEN),
    "several radii of experience": (experience("radius", lambda t: t.repeat(2)), UNSEEN),
    "a radius that is no number": (experience("radius", lambda t: t * torch.nan), UNSEEN),
    "half of the experience": (
        tensors(lambda found: {n: t for n, t in found.items() if n != "experience.radius"}),
        UNSEEN,
    ),
    "experience of another kind": (
        tensors(lambda found: {**found, "experience.map": torch.ones(3)}),
        UNSEEN,
    ),
    "vast windows": (card("window_size", value=10**9), (*WRONG, "windows of 1000000000 cells")),
    "no layers": (card("layers", value=[]), (*WRONG, "no layers")),
    "a grid without extent": (card("grid", "transform", value=[0] * 6), WRONG),
    "no CRS": (card("grid", "crs", value="here"), ("CRS of the model's grid cannot be read",)),
    "other tiles": (card("split", "roles", value=[["train"]]), (*WRONG, "tiles")),
    "a list for a card": (card_text(lambda text: "[]"), FOREIGN),
    "a card nested without end": (card_text(lambda text: "[" * 10**5), FOREIGN),
    "a card nested by thousands": (card_text(lambda text: nested(10**5)), FOREIGN),
    "provenance nested by hundreds": (
        card_text(lambda text: f'{{"provenance": {nested(300)}, {text[1:]}'),
        FOREIGN,
    ),
    "a card of many megabytes": (card_text(lambda text: f"{text}{' ' * 2**23}"), FOREIGN),
    "a book for a name": (card("layers", 0, "name", value="x" * 10**5), FOREIGN),
    "a long name": (card("layers", 0, "name", value="x" * 5000), (*WRONG, "whole books")),
    "a list for a number": (card("layers", 0, "mean", value=[1]), FOREIGN),
    "a list for the provenance": (card("provenance", value=[1]), FOREIGN),
    "a number without end for a format": (
        card_text(lambda text: text.replace('"format":2', '"format":Infinity')),
        FOREIGN,
    ),
    "a mean beyond all values": (card("layers", 0, "mean", value=1e300), (*WRONG, "statistics")),
    "classes by tens of thousands": (
        card("layers", 0, "classes", value=list(range(50_000))),
        (*WRONG, "classes"),
    ),
    "a class beyond all codes": (card("layers", 0, "classes", value=[10**400]), WRONG),
    "layers by tens of thousands": (
        card("layers", value=[{"name": str(number)} for number in range(50_000)]),
        (*WRONG, "50,000 layers"),
    ),
    "networks by thousands": (
        card("others", value=[{"seed": 1, "iterations": 1}] * 5000),
        (*WRONG, "5,001 networks"),
    ),
    "figures by thousands": (
        card("metrics", value={str(number): 1.0 for number in range(5000)}),
        (*WRONG, "lists without end"),
    ),
    "a seed below 0": (card("seed", value=-1), (*WRONG, "counts below 0")),
    "iterations without end": (card("iterations", value=10**400), (*WRONG, "without end")),
    "a vast grid": (card("grid", "height", value=10**18), (*WRONG, "a grid without end")),
    "a grid of less than nothing": (card("grid", "height", value=-5), WRONG),
    "tiles beyond the grid": (
        card("split", value={"row_edges": [0, 10**18], "col_edges": [0, 9], "roles": [["test"]]}),
        (*WRONG, "tiles beyond its grid"),
    ),
    "cells larger than the Earth": (
        card("grid", "transform", value=[1e300, 0, 0, 0, -1e300, 0]),
        ("cannot be right", "another copy"),
    ),
    "a place beyond the Earth": (
        card("grid", "transform", value=[100, 0, 1e300, 0, -100, 0]),
        ("The place of the model's grid cannot be right", "another copy"),
    ),
    "an anchor larger than windows": (card("settings", "network", "anchor", value=10**9), FOREIGN),
    "weights beyond all bounds": (
        weights(lambda tensor: torch.full_like(tensor, 3e38)),
        ("Some weights in", "beyond all bounds", "train again"),
    ),
    "weights without end": (weights(lambda tensor: tensor / 0), ("Some weights in",)),
}


@pytest.mark.parametrize("kind", BAD)
def test_a_checkpoint_that_cannot_serve(
    kind: str,
    refused: Refused,
    small_region: SmallRegion,
    trained: Any,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    spoil, words = BAD[kind]
    path = tmp_path / "bad.safetensors"
    path.write_bytes(spoil(trained.checkpoint.read_bytes()))
    rasters = small_region.raster_options
    refused(["map", "--checkpoint", path, *rasters, "--out", tmp_path / "map.tif"], *words)
    assert capfd.readouterr() == ("", "")
    if words in (UNREADABLE, FOREIGN, PICKLE):
        assert str(path) in refused(["info", path], *words)


@pytest.mark.parametrize("command", ["map", "sample", "evaluate"])
def test_what_is_no_checkpoint_at_all(
    command: str, refused: Refused, small_region: SmallRegion, tmp_path: Path
) -> None:
    region = small_region
    more = ("--occurrences", region.occurrences) if command == "evaluate" else ()
    for path, words in (
        (region.raster("slope"), UNREADABLE),
        (region.folder, ("There is no checkpoint at", "is a file")),
        (tmp_path / "gone.safetensors", ("There is no checkpoint at", "Check the path")),
    ):
        given = ("--checkpoint", path, *region.raster_options, *more)
        refused([command, *given, "--out", tmp_path / OUT[command]], *words)


def test_other_layers_are_told_by_name(
    refused: Refused, small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    rasters = ("--raster", small_region.raster("slope"))
    other = ("--raster", f"gravity={small_region.raster('noise')}")
    given = ["map", "--checkpoint", trained.checkpoint, *rasters, *other]
    refused(
        [*given, "--out", tmp_path / "map.tif"],
        *("not given: ridge, noise", "unknown to it: gravity", "--raster NAME=path"),
    )


def test_layers_too_many_are_told_by_name(
    geocfm: Callable[..., Any], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    result = geocfm(
        *("sample", "--checkpoint", trained.checkpoint, *small_region.raster_options),
        *("--raster", f"gravity={small_region.raster('noise')}", "--steps", 1, "--points", 5),
        *("--out", tmp_path / "points.gpkg"),
    )
    assert result.exit_code == 0, result.output
    assert "not used: gravity" in " ".join(result.output.split())


@pytest.mark.parametrize("value", [None, [1], 5, "text"])
def test_a_card_may_hold_anything_for_its_job(
    value: Any, geocfm: Callable[..., Any], small_region: SmallRegion, trained: Any, tmp_path: Path
) -> None:
    path = tmp_path / "odd.safetensors"
    path.write_bytes(card("provenance", "job", value=value)(trained.checkpoint.read_bytes()))
    result = geocfm(
        *("evaluate", "--checkpoint", path, *small_region.raster_options, "--skip-importance"),
        *("--occurrences", small_region.occurrences, "--baselines", "none", "--steps", 1),
        *("--out", tmp_path / "evaluation"),
    )
    assert result.exit_code == 0, result.output
