from collections.abc import Iterator

import pytest
from geocfm.data.region import Region, region_as_learned
from geocfm.geo.occurrences import read_occurrences
from geocfm.geo.rasters import Stack, find_layers
from geocfm.model.checkpoint import Checkpoint
from small_data import SmallRegion


@pytest.fixture(scope="module")
def region(small_region: SmallRegion, checkpoint: Checkpoint) -> Iterator[Region]:
    """The small region as the small model saw it."""
    with Stack(find_layers(small_region.rasters), small_region.grid) as stack:
        found = read_occurrences(small_region.occurrences, stack.grid)
        yield region_as_learned(stack, found, checkpoint.card, lambda done, total: None)
