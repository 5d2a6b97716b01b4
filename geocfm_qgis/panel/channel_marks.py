"""What the user marked on the project's bands: ticks, names, classes and the order.

Marks outlive their layers: a layer that comes back has its own again.
"""

from dataclasses import dataclass, replace
from typing import Optional

from .choices import Channel


@dataclass(frozen=True)
class Mark:
    """The user's word on one band; None leaves a proposal as it is."""

    ticked: bool = False
    name: Optional[str] = None
    categorical: Optional[bool] = None


UNMARKED = Mark()


class ChannelMarks:
    """Marks by layer and band, and both in order."""

    def __init__(self):
        self._marks = {}
        self._layers = []  # ids in the order of the user
        self._bands = {}  # of some layers: their bands in the order of the user

    def of(self, layer_id, band):
        """Give the mark of a band."""
        return self._marks.get((layer_id, band), UNMARKED)

    def change(self, layer_id, band, **values):
        """Change what is marked on a band."""
        self._marks[layer_id, band] = replace(self.of(layer_id, band), **values)

    def channel(self, layer_id, band):
        """Give a band (raster_facts.Band) as a channel, the user's word before the proposal."""
        mark = self.of(layer_id, band.number)
        return Channel(
            layer_id,
            band.number,
            band.name if mark.name is None else mark.name,
            band.has_codes if mark.categorical is None else mark.categorical,
        )

    def ticked_bands(self, layer_id):
        """Give the numbers of the ticked bands of a layer that may be out of reach."""
        return [
            band for (own, band), mark in self._marks.items() if own == layer_id and mark.ticked
        ]

    def ordered_layers(self, ids):
        """Sort ids: those the user put in order first, the others as they come."""
        return _ordered(ids, self._layers)

    def ordered_bands(self, layer_id, bands):
        """Sort bands (raster_facts.Band) of a layer likewise."""
        numbers = _ordered([band.number for band in bands], self._bands.get(layer_id, []))
        return sorted(bands, key=lambda band: numbers.index(band.number))

    def keep_order(self, layers, bands):
        """Take over the order that is seen; layers out of sight go on at the end."""
        out_of_sight = [layer for layer in self._layers if layer not in layers]
        self._layers = list(layers) + out_of_sight
        self._bands.update(bands)

    def rename(self, old, new):
        """Pass the marks of a layer on to the one that has come in its place."""
        for own, band in [key for key in self._marks if key[0] == old]:
            self._marks[new, band] = self._marks.pop((own, band))
        self._layers = [new if layer == old else layer for layer in self._layers if layer != new]
        if old in self._bands:
            self._bands[new] = self._bands.pop(old)

    def take(self, channels):
        """Tick these channels and no others, in their order and by their names."""
        for key, mark in self._marks.items():
            self._marks[key] = replace(mark, ticked=False)
        bands = {}
        for channel in channels:
            self._marks[channel.layer, channel.band] = Mark(True, channel.name, channel.categorical)
            bands.setdefault(channel.layer, []).append(channel.band)
        self._layers = list(bands) + [layer for layer in self._layers if layer not in bands]
        self._bands.update(bands)


def _ordered(keys, first):
    known = [key for key in first if key in keys]
    return known + [key for key in keys if key not in known]
