"""What files may make GDAL and PROJ do: never run code, and reach the network only if allowed.

A raster may name its sources by address, a vector file its CRS, a virtual file its own Python code.
Whoever opens such a file has not asked for that. rasterio and pyogrio bring a GDAL each; both read
these variables whenever they need them, so it does not matter which of them loads first.
"""

from __future__ import annotations

import os
import re

from geocfm.errors import UserError

NOWHERE = "closed://network"  # a proxy of no kind: libcurl gives up before it looks for a host
PROXIES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")  # of libcurl, in capitals too

CLOSED: dict[str, str | None] = {
    "GDAL_HTTP_PROXY": NOWHERE,
    "GDAL_HTTPS_PROXY": NOWHERE,
    "CPL_VSIL_CURL_ALLOWED_FILENAME": "none",  # a name may bring a proxy of its own
    "PROJ_NETWORK": "OFF",
    # netCDF fetches by itself, and knows only libcurl's own
    **dict.fromkeys((*PROXIES, *map(str.upper, PROXIES)), NOWHERE),
    **dict.fromkeys(("no_proxy", "NO_PROXY"), None),  # hosts that are reached without one
}
ALWAYS: dict[str, str | None] = {
    "GDAL_VRT_ENABLE_PYTHON": "NO",
    "GDAL_VRT_RAWRASTERBAND_ALLOWED_SOURCE": "SIBLING_OR_CHILD_OF_VRT_PATH",
    "OGR_SQLITE_ALLOW_EXTERNAL_ACCESS": "NO",
}
# they start programs, load libraries, or run GDAL's own with any options
UNWANTED_DRIVERS = ("ADBC", "GDALG", "GPSBabel")
# they reach servers without libcurl; the packages from PyPI have none of them
DATABASE_DRIVERS = (
    *("GeoRaster", "HANA", "MongoDBv3", "MSSQLSpatial", "MySQL", "OCI", "ODBC"),
    *("PostGISRaster", "PostgreSQL", "TileDB"),
)

_FILE_SYSTEMS = r"/vsi(curl|s3|gs|az|adls|oss|swift|hdfs|webhdfs)(_streaming)?(?![a-z0-9_])"
# with one slash too: so a path is left by what tidies paths up
_ADDRESSES = r"(?<![a-z])(https?|ftps?|s3|gs|az|adls?|oss|hdfs|webhdfs):/"
_SERVICES = (
    r"^\W*(wms|wmts|wcs|wfs3?|oapif|oapif_collection|ogcapi|csw|es|ngw|carto|amigocloud|plscenes|"
    r"plmosaic|eeda|eedai|daas|pg|postgresql|mysql|mssql|mongodbv3|odbc|oci|hana|stacit):"
)
NETWORK_NAME = re.compile("|".join((_FILE_SYSTEMS, _ADDRESSES, _SERVICES)), re.IGNORECASE)

HINT = (
    "Download it first and give the file; or add --allow-network to the command, if you know where "
    "the name comes from."
)

_users: dict[str, str | None] = {}  # the variables as they were, of those that have been changed
_allowed = False


def guard(*, allow_network: bool) -> None:
    """Set what GDAL and PROJ may do in this process; before they load, or some drivers stay."""
    global _allowed
    _allowed = allow_network
    variables = ALWAYS if allow_network else ALWAYS | CLOSED
    for name, ours in (CLOSED | ALWAYS).items():
        found = os.environ.get(name)
        before = _users.setdefault(name, None if found == ours else found)  # ours, in a child
        _set(name, variables.get(name, before))
    skipped = UNWANTED_DRIVERS if allow_network else UNWANTED_DRIVERS + DATABASE_DRIVERS
    also = _users.setdefault("GDAL_SKIP", os.environ.get("GDAL_SKIP"))
    _set("GDAL_SKIP", ",".join((*_drivers(also or ""), *skipped)))
    if "CPL_DEBUG" not in os.environ:  # else GDAL tells the terminal which of them it has not
        os.environ.setdefault("CPL_LOG", os.devnull)


def _set(name: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def _drivers(text: str) -> list[str]:
    """The names that the user skips: divided by commas, or by spaces where there are none."""
    return [name for name in text.split("," if "," in text else None) if name]


def refuse_network(name: str) -> None:
    """Refuse what lies on the network, before GDAL sees the name, unless that was allowed."""
    if not _allowed and is_on_network(name):
        raise UserError(f"'{name}' lies on the network, which is not asked unbidden.", HINT)


def is_on_network(name: str) -> bool:
    """Tell whether what GDAL would open by this name, or a part of it, lies on the network."""
    return NETWORK_NAME.search(name) is not None and not os.path.exists(name)


def network_in(path: str, error: BaseException | None) -> UserError | None:
    """The sentence for a file that could not be read for what it names, by GDAL's words."""
    while error is not None and not _allowed:
        words = str(error)
        if NOWHERE in words or NETWORK_NAME.search(words):
            return refers_to_network(path)
        error = error.__cause__ or error.__context__
    return None


def refers_to_network(path: str) -> UserError:
    """The sentence for a file that needs something of the network."""
    return UserError(f"'{path}' refers to the network, which is not asked unbidden.", HINT)


def network_allowed() -> bool:
    """Whether the command said so."""
    return _allowed
