"""A region to learn from."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from geocfm.data.region import Region, prepare_region
from geocfm.geo.occurrences import read_occurrences
from geocfm.geo.rasters import Stack, find_layers
from geocfm.model.settings import WindowSettings
from small_data import SmallRegion


@pytest.fixture(scope="module")
def region(small_region: SmallRegion) -> Iterator[Region]:
    with Stack(find_layers(small_region.rasters), small_region.grid) as stack:
        occurrences = read_occurrences(small_region.occurrences, small_region.grid)
        settings = WindowSettings(size=32, tile=40)
        yield prepare_region(stack, occurrences, settings, lambda done, total: None)
