"""A first pass over a region's windows, for what their levels are found from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from geocfm.data.encoding import data_mask, some_data
from geocfm.errors import UserError
from geocfm.events import Reporter, Stage
from geocfm.geo.grid import Window, bounding_window
from geocfm.inference.density import DENSITIES
from geocfm.inference.levels import Survey, reach, shared_masses, window_levels
from geocfm.inference.mosaic import Mosaic
from geocfm.inference.parts import Arrays, Parts
from geocfm.inference.predictor import EncodedWindows, Predictor
from geocfm.inference.region_windows import batches_of
from geocfm.model.settings import NetworkSettings


def choose_combination(asked: str, network: NetworkSettings) -> str:
    """How windows are put side by side: as asked, or by the best that the model has."""
    if asked == "auto":
        return "count" if _counts(network) else "consistent"
    missing = {"head": not network.density, "count": not _counts(network)}
    if missing.get(asked):
        raise UserError(
            "This model has no density head."
            if asked == "head"
            else "This model does not tell how many occurrences a window holds.",
            "Use --combine consistent, or train again with the preset quick or full.",
        )
    return asked


def _counts(network: NetworkSettings) -> bool:
    """Whether a model tells how many occurrences a window holds."""
    return network.process or network.count


@dataclass(frozen=True)
class RegionLevels:
    """The level of every window, for each member of the predictor.

    parts: of the area that share no window, so that nothing tells how they compare.
    """

    by_member: list[dict[Window, float]]
    parts: int = 1

    def warnings(self) -> tuple[str, ...]:
        """What the user should know of them."""
        if self.parts == 1:
            return ()
        return (
            f"The mapped area falls into {self.parts} parts that share no window: within a part "
            "the map compares, from one part to another it does not.",
        )


def region_levels(
    predictor: Predictor,
    mosaic: Mosaic,
    windows: list[Window],
    combine: str,
    density: str,
    seed: int,
    parts: Parts,
    reporter: Reporter,
) -> RegionLevels:
    """The level of every window, for each member of the predictor.

    The density head tells what windows share wherever there is one: it is exact and takes one pass.
    For an average nothing is asked of it, only where there is data.
    """
    looked = "head" if predictor.card.settings.network.density else density
    if combine == "average":
        survey = _survey_data(predictor, mosaic, windows, reporter.stage("Comparing windows"))
        surveys = [survey] * len(predictor.members)
    else:
        surveys = []
        for number, member in enumerate(predictor.members):
            title = "Comparing windows"
            if len(predictor.members) > 1:
                title += f", member {number + 1}"
            key, stage = f"survey-{number}", reporter.stage(title)
            surveys.append(_survey(member, mosaic, windows, looked, seed, parts, key, stage))
    levels = [window_levels(mosaic, windows, survey, combine) for survey in surveys]
    together = RegionLevels(
        [dict(zip(windows, one.values.tolist(), strict=True)) for one in levels],
        max(1, *(one.parts for one in levels)),
    )
    for sentence in together.warnings():
        reporter.warn(sentence)
    return together


def _survey_data(
    predictor: Predictor, mosaic: Mosaic, windows: list[Window], stage: Stage
) -> Survey:
    """What each window holds and shares of the data, as if all of it were alike."""
    most = reach(mosaic)
    cells = np.zeros(len(windows), dtype=np.int64)
    shared = np.zeros((len(windows), 2 * most + 1, 2 * most + 1))
    zero_is_nodata = predictor.encoder.settings.zero_is_nodata
    done = 0
    for batch in batches_of(windows):
        stage(done, len(windows))
        around = bounding_window(batch)
        data = some_data(data_mask(predictor.layers.read(around), zero_is_nodata))
        for window in batch:
            footprint = data[window.slices_in(around)]
            cells[done] = footprint.sum()
            even = footprint / max(cells[done], 1)
            shared[done] = shared_masses(mosaic, window, even, most)
            done += 1
    stage(len(windows), len(windows))
    unknown = np.full(len(windows), np.nan)
    return Survey(cells, shared, unknown, unknown)


def _survey(
    predictor: Predictor,
    mosaic: Mosaic,
    windows: list[Window],
    density: str,
    seed: int,
    parts: Parts,
    name: str,
    stage: Stage,
) -> Survey:
    """What each window holds and shares; finished batches are kept in ``parts``."""
    most = reach(mosaic)
    found: list[Arrays] = []
    done = 0
    for batch in batches_of(windows):
        stage(done, len(windows))
        key = f"{name}-{batch[0].row}-{batch[0].col}"
        part = parts.load(key)
        if part is None:
            encoded = predictor.encode(batch, views=1)  # of sums over many cells one is enough
            densities = DENSITIES[density](predictor, encoded, seed, 0)
            part = {
                "cells": encoded.footprints.sum(axis=(1, 2)),
                "shared": np.stack(
                    [
                        shared_masses(mosaic, window, mass / max(mass.sum(), 1.0), most)
                        for window, mass in zip(batch, densities, strict=True)
                    ]
                ),
                "log_mass": _numbers(encoded.maps.log_mass, encoded),
                "log_count": _numbers(encoded.maps.log_count, encoded),
            }
            parts.save(key, **part)
        found.append(part)
        done += len(batch)
    stage(len(windows), len(windows))
    joined = {key: np.concatenate([part[key] for part in found]) for key in found[0]}
    return Survey(**joined)


def _numbers(values: Tensor | None, encoded: EncodedWindows) -> NDArray[np.float64]:
    if values is None:
        return np.full(len(encoded.windows), np.nan)
    return values.double().cpu().numpy()
