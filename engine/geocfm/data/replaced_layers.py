"""A window with one layer replaced: by the same layer of another place, or by its mean.

Only the layer's values change. Where it has data stays as it is, in its validity channel too, and
so does the footprint that a density is normalised over.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from geocfm.data.augmentation import turn_image
from geocfm.data.encoding import Encoder, data_mask, some_data

Channels = NDArray[np.float32]


@dataclass(frozen=True)
class LayeredWindow:
    """Channels (C, H, W) of a window, and where each of its layers has data (L, H, W)."""

    channels: Channels
    valid: NDArray[np.bool_]
    encoder: Encoder

    @classmethod
    def read(cls, values: NDArray[np.float32], encoder: Encoder) -> LayeredWindow:
        """From the layers' values (L, H, W), NaN for no-data."""
        valid = data_mask(values, encoder.settings.zero_is_nodata)
        return cls(encoder.encode(values)[0], valid, encoder)

    @property
    def footprint(self) -> NDArray[np.bool_]:
        """Cells (H, W) where some layer has data."""
        return some_data(self.valid)

    def turned(self, symmetry: int) -> LayeredWindow:
        """One of its eight turns and mirrors."""
        channels = turn_image(self.channels, symmetry)
        return LayeredWindow(channels, turn_image(self.valid, symmetry), self.encoder)

    def lacking(self, donor: LayeredWindow) -> int:
        """Cells, summed over the layers, that the donor has fewer of with data than this one."""
        own, given = (window.valid.sum(axis=(1, 2)) for window in (self, donor))
        return int(np.maximum(own - given, 0).sum())

    def with_layer_of(self, donor: LayeredWindow, layer: int) -> Channels:
        """Channels (C, H, W) with a layer's values as they are in the donor.

        Where the donor has no data, the layer's mean over the donor stands for it.
        """
        part = self.encoder.value_channels(layer)
        given = np.where(donor.valid[layer], donor.channels[part], donor._mean(layer))
        return self._with(layer, given)

    def with_layer_mean(self, layer: int, means: NDArray[np.floating]) -> Channels:
        """Channels (C, H, W) with the means (c,) of a layer's value channels all over it."""
        return self._with(layer, means[:, None, None])

    def _mean(self, layer: int) -> NDArray[np.float32]:
        """Of the layer's value channels over its cells with data, (c, 1, 1); else 0."""
        cells = self.channels[self.encoder.value_channels(layer)][:, self.valid[layer]]
        means = cells.mean(axis=1) if cells.size else np.zeros(len(cells), np.float32)
        return means[:, None, None]

    def _with(self, layer: int, values: NDArray[np.floating]) -> Channels:
        channels = self.channels.copy()
        channels[self.encoder.value_channels(layer)] = np.where(self.valid[layer], values, 0)
        return channels
