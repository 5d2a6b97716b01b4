"""The environment variables of child processes: the user's, without what QGIS put there for itself.

QGIS starts with variables that lead every Python, GDAL, PROJ and shared library below it to QGIS's
own copies; a child with another Python would load those and fail, or worse, half work.
"""

import fnmatch
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote, urlsplit

from qgis.core import QgsApplication, QgsNetworkAccessManager
from qgis.PyQt.QtNetwork import QNetworkProxy

from .bundle import engine_folder

GOES = (  # by what it would redirect; names in capitals, matched in any case
    # Python, and which one is started
    *("PYTHON*", "__PYVENV_LAUNCHER__", "VIRTUAL_ENV*", "PYENV_VERSION", "PYENV_DIR"),
    *("CONDA_*", "_CONDA_*", "_CE_*", "MAMBA_*", "PDM_*", "POETRY_*", "UV_*"),
    # where pip installs, for which Python, and what
    *("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_SRC", "PIP_EDITABLE"),
    *("PIP_PYTHON*", "PIP_REQUIRE_VIRTUALENV", "PIP_PLATFORM", "PIP_ABI", "PIP_IMPLEMENTATION"),
    *("PIP_REQUIREMENT", "PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT", "PIP_NO_DEPS", "PIP_DRY_RUN"),
    *("PIP_IGNORE_INSTALLED", "PIP_FORCE_REINSTALL", "PIP_QUIET", "PIP_BREAK_SYSTEM_PACKAGES"),
    # GDAL, PROJ and their drivers
    *("GDAL*", "OGR*", "PROJ_*", "GEOTIFF_CSV", "PDAL_*", "GRASS*", "GISBASE", "SAGA*"),
    # QGIS, Qt and the ground they stand on
    *("QGIS*", "QT_*", "QTDIR", "QTPLUGINS*", "QTWEBENGINE*", "QML*", "OSGEO4W*", "O4W_*"),
    *("MPLBACKEND", "TCL_LIBRARY", "TK_LIBRARY"),
    # the loader of shared libraries
    *("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT", "DYLD_*"),
)
STAYS = (  # though a pattern above fits: the user's proxy, package index and certificates
    *("GDAL_HTTP_PROXY*", "GDAL_HTTPS_PROXY*", "GDAL_PROXY_AUTH", "GDAL_CURL_CA_BUNDLE"),
    *("UV_PYTHON_INSTALL_MIRROR", "UV_INDEX*", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX_URL"),
    *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS", "UV_INSECURE_HOST", "UV_FIND_LINKS", "UV_OFFLINE"),
)
CERTIFICATES = (  # these stay unless they are QGIS's, or lead nowhere (QGIS was moved or updated)
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT"),
    "GDAL_CURL_CA_BUNDLE",
)
PROXY_NAMES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "PIP_PROXY")

IS_WINDOWS = os.name == "nt"


def scrubbed(variables, qgis_folders=()):
    """Give the variables without those that would lead a child to QGIS's Python and libraries."""
    kept = {}
    for name, value in variables.items():
        capitals = name.upper()
        if _fits(capitals, GOES) and not _fits(capitals, STAYS):
            continue
        if capitals in CERTIFICATES and _is_stale(value, qgis_folders):
            continue
        if capitals == "PATH":
            folders = value.split(os.pathsep)
            value = os.pathsep.join(each for each in folders if not _is_in(each, qgis_folders))
        kept[name] = value
    return kept


def engine_environment(base=None, python=None):
    """Give the variables for a child that runs the engine that comes with the plugin.

    Pass the `python` that is started, so that on Windows one of conda's finds its libraries.
    """
    variables = scrubbed(os.environ if base is None else base, qgis_folders())
    variables.update(
        _python_manners(),
        PYTHONPATH=str(engine_folder()),
        PYTHONSAFEPATH="1",  # the current folder holds the user's files, not modules
    )
    own = _conda_folders(python) if python and IS_WINDOWS else []
    if own:
        variables["PATH"] = os.pathsep.join([*own, variables.get("PATH", "")])
    return variables


def installer_environment(base=None, proxy=None):
    """Give the variables for pip, with the `proxy` given, or else the one of QGIS's settings."""
    variables = scrubbed(os.environ if base is None else base, qgis_folders())
    variables.update(
        _python_manners(),
        PYTHONUNBUFFERED="1",  # its lines are shown as they come
        PIP_DISABLE_PIP_VERSION_CHECK="1",
        PIP_NO_INPUT="1",  # a question for a password would wait for ever
    )
    proxy = qgis_proxy() if proxy is None else proxy
    if proxy:
        variables.update(dict.fromkeys(PROXY_NAMES, proxy))
        listed = variables.get("no_proxy") or variables.get("NO_PROXY") or ""
        hosts = [host.strip() for host in listed.split(",") if host.strip()]
        direct = ",".join(dict.fromkeys([*hosts, *_hosts_without_proxy()]))
        if direct:
            variables.update(no_proxy=direct, NO_PROXY=direct)
    return variables


def popen_options():
    """Give subprocess.Popen's options: a group of its own, and no console window on Windows."""
    if IS_WINDOWS:
        flags = subprocess.CREATE_NO_WINDOW | subprocess.CREATE_NEW_PROCESS_GROUP
        return {"creationflags": flags}
    return {"start_new_session": True}


def qgis_folders():
    """Give the folders that hold only QGIS's own programs; none where it shares the system's."""
    if sys.platform.startswith("linux"):
        return ()
    roots = (QgsApplication.prefixPath(), os.environ.get("OSGEO4W_ROOT"), _application_bundle())
    return tuple(root for root in roots if root)


def qgis_proxy():
    """Give the address of the proxy in QGIS's network settings, or an empty text.

    The system's proxy is not named: pip finds that by itself.
    """
    proxy = QgsNetworkAccessManager.instance().fallbackProxy()
    schemes = {
        QNetworkProxy.ProxyType.HttpProxy: "http",
        QNetworkProxy.ProxyType.HttpCachingProxy: "http",
        QNetworkProxy.ProxyType.Socks5Proxy: "socks5h",
    }
    scheme = schemes.get(proxy.type())
    if not scheme or not proxy.hostName():
        return ""
    login = ""
    if proxy.user():
        login = f"{quote(proxy.user(), safe='')}:{quote(proxy.password(), safe='')}@"
    port = f":{proxy.port()}" if proxy.port() else ""
    return f"{scheme}://{login}{proxy.hostName()}{port}"


def _hosts_without_proxy():
    """Give the hosts that QGIS's network settings except from the proxy, by their addresses."""
    manager = QgsNetworkAccessManager.instance()
    addresses = [*manager.excludeList(), *manager.noProxyList()]
    split = [urlsplit(each if "//" in each else f"//{each}") for each in addresses if each]
    return [address.hostname for address in split if address.hostname]


def _python_manners():
    return {"PYTHONNOUSERSITE": "1", "PYTHONUTF8": "1", "PYTHONIOENCODING": "utf-8"}


def _fits(name, patterns):
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


def _is_stale(value, qgis_folders):
    paths = [path for path in value.split(os.pathsep) if path]
    return not any(os.path.exists(path) and not _is_in(path, qgis_folders) for path in paths)


def _is_in(path, folders):
    inside = os.path.normcase(os.path.normpath(path))
    for folder in folders:
        root = os.path.normcase(os.path.normpath(folder))
        if inside == root or inside.startswith(root + os.sep):
            return True
    return False


def _application_bundle():
    """Give /Applications/QGIS.app on macOS: QGIS's prefix is a folder further in."""
    above = [QgsApplication.prefixPath(), *map(str, Path(QgsApplication.prefixPath()).parents)]
    return next((folder for folder in above if folder.endswith(".app")), None)


def _conda_folders(python):
    """Give the folders that `conda activate` would put on the path for a Python of conda's."""
    root = Path(python).parent
    if not (root / "conda-meta").is_dir():
        return []
    library = root / "Library"
    folders = [root, library / "mingw-w64" / "bin", library / "usr" / "bin", library / "bin"]
    return [str(folder) for folder in folders]
