"""Points that are not where the rasters are, and the CRSs that would put them there."""

from __future__ import annotations

import shlex
from pathlib import Path

import numpy as np
import pytest
from geocfm.errors import UserError
from geocfm.geo.crs import crs_name, parse_crs
from geocfm.geo.grid import Grid
from geocfm.geo.occurrences import read_occurrences
from rasterio.transform import Affine

OWN = "+proj=tmerc +lat_0=-25 +lon_0=117 +k=0.9996 +x_0=500000 +y_0=0 +ellps=GRS80 +units=m"
PIXELS = np.array([[0.25, 0.75], [10.5, 20.125], [79.9, 59.9]])


def table(path: Path, world: np.ndarray, header: str = "x,y") -> Path:
    path.write_text(header + "\n" + "".join(f"{x!r},{y!r}\n" for x, y in world.tolist()))
    return path


def test_a_crs_without_a_name_is_no_remedy(tmp_path: Path) -> None:
    grid = Grid(parse_crs(OWN), Affine(100, 0, 500_000, 0, -100, 7_000_000), 60, 80)
    path = table(tmp_path / "a.csv", grid.to_world(PIXELS))
    with pytest.raises(UserError, match="as a CRS without a name 3 of 3 lie inside") as caught:
        read_occurrences(path, grid)
    option = caught.value.hint.partition("--occurrences-crs ")[2].removesuffix(".")
    (text,) = shlex.split(option)  # as a shell reads it
    assert len(read_occurrences(path, grid, crs=text).points) == 3
    with pytest.raises(UserError, match="but as a CRS without a name 3 of 3 do") as caught:
        read_occurrences(path, grid, crs="EPSG:20350")
    assert option in caught.value.hint
    assert crs_name(grid.crs) not in caught.value.hint
