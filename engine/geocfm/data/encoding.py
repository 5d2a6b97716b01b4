"""Layer values to network channels: standardised, one-hot, masked; no-data is a mask, not zero."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from geocfm.model.checkpoint import LayerCard
from geocfm.model.settings import WindowSettings


class Encoder:
    """Turns values (L, h, w) with NaN for no-data into channels (C, h, w) and a footprint."""

    def __init__(self, layers: Sequence[LayerCard], settings: WindowSettings) -> None:
        self.layers = tuple(layers)
        self.settings = settings

    def encode(self, values: NDArray[np.floating]) -> tuple[NDArray[np.float32], NDArray[np.bool_]]:
        """Channels (C, h, w), and the footprint (h, w): cells where some layer has data."""
        valid = data_mask(values, self.settings.zero_is_nodata)
        channels: list[NDArray[np.float32]] = []
        for layer, plane, mask in zip(self.layers, values, valid, strict=True):
            if layer.categorical:
                channels += [
                    ((plane == value) & mask).astype(np.float32) for value in layer.classes
                ]
            else:
                channels.append(self._standardise(layer, plane, mask))
        if self.settings.validity_channels:
            channels += list(valid.astype(np.float32))
        return np.stack(channels), some_data(valid)

    def value_channels(self, layer: int) -> slice:
        """The channels of a layer's values: one, or one per class; its validity is another one."""
        widths = [len(card.classes) if card.categorical else 1 for card in self.layers]
        first = sum(widths[:layer])
        return slice(first, first + widths[layer])

    def presence_channels(self) -> NDArray[np.int64]:
        """Which channel says whether a channel's layer has data (C,); -1 if none does."""
        widths = [len(card.classes) if card.categorical else 1 for card in self.layers]
        values = np.repeat(np.arange(len(widths)), widths)
        if not self.settings.validity_channels:
            return np.full(len(values), -1)
        return np.concatenate([values, np.arange(len(widths))]) + len(values)

    def unknown_classes(self, values: NDArray[np.floating]) -> dict[str, tuple[int, int]]:
        """For each class layer: cells whose class has no channel, and all cells with data."""
        valid = data_mask(values, self.settings.zero_is_nodata)
        found = {}
        for layer, plane, mask in zip(self.layers, values, valid, strict=True):
            if layer.categorical:
                unknown = mask & ~np.isin(plane, layer.classes)
                found[layer.name] = (int(unknown.sum()), int(mask.sum()))
        return found

    def _standardise(
        self, layer: LayerCard, plane: NDArray[np.floating], mask: NDArray[np.bool_]
    ) -> NDArray[np.float32]:
        plane = plane.astype(np.float32, copy=False)  # float64 where a class layer needs it
        mean, std = layer.mean, layer.std
        if self.settings.standardise == "window" and mask.any():
            mean, std = float(plane[mask].mean()), float(plane[mask].std())
        scaled = (plane - np.float32(mean)) / np.float32(std or 1.0)
        return np.where(mask, scaled, np.float32(0))


def some_data(valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The footprint (h, w): cells where at least one layer (L, h, w) has data."""
    return np.logical_or.reduce(valid, axis=0)


def data_mask(values: NDArray[np.floating], zero_is_nodata: bool) -> NDArray[np.bool_]:
    """Where values are data: finite, and not zero where zero means none."""
    mask: NDArray[np.bool_] = np.isfinite(values)
    return mask & (values != 0) if zero_is_nodata else mask
