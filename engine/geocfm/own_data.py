"""The tables of GDAL and PROJ that come with their packages, and no other installation's.

This module needs nothing: it is at work before anything else is loaded.
"""

import os
from importlib.util import find_spec

# where other installations of GDAL and PROJ, as those of QGIS or OSGeo4W, tell theirs to look
LEADS_ELSEWHERE = (
    *("PROJ_DATA", "PROJ_LIB", "GDAL_DATA", "GEOTIFF_CSV"),
    *("GDAL_DRIVER_PATH", "OGR_DRIVER_PATH"),  # drivers built for another GDAL crash this one
)


def keep_to_own_data() -> None:
    """Take those variables out of this process, if rasterio has brought what it needs.

    PROJ reads only a database of its own version. A rasterio that shares the system's GDAL, as
    conda's and Debian's do, is led by the variables of that system.
    """
    found = find_spec("rasterio")
    folders = found.submodule_search_locations if found is not None else None
    if any(os.path.isdir(os.path.join(folder, "proj_data")) for folder in folders or ()):
        for name in LEADS_ELSEWHERE:
            os.environ.pop(name, None)
