"""A text that says what a developer needs to know of this computer and of what went wrong.

It is made to be copied into a report, so it is in English whatever QGIS's language is, and what
concerns only the user is taken out.
"""

from __future__ import annotations

import os
import platform
import sys
from datetime import datetime

from qgis.core import Qgis, QgsApplication, QgsSettings
from qgis.PyQt.QtCore import PYQT_VERSION_STR, QT_VERSION_STR

from . import settings
from .bundle import plugin_version
from .engine_client import EngineUnusable
from .redaction import redacted

TAIL_LINES = 200
TAIL_CHARACTERS = 20_000
LONGEST_SETTING = 300  # characters; what is longer is a list of choices
VARIABLES = (  # which change how the engine works or how packages are found
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL"),
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "PIP_CERT"),
    *("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "MKL_NUM_THREADS", settings.PYTHON_VARIABLE),
)


def diagnostics_text(outcome=None, handshake=None):
    """Give the text; `outcome` is of the run that went wrong, `handshake` what the engine said.

    In place of a handshake the EngineUnusable that came instead of it can be given.
    """
    parts = [_part("GeoCFM diagnostics", _system()), _part("Engine", _engine(handshake))]
    parts.append(_part("Settings", _settings()))
    if outcome is not None:
        ended = {"status": outcome.status, "message": outcome.message, "hint": outcome.hint}
        parts.append(_part("Outcome", _lines(ended)))
        parts.append(_part("Transcript", _tail(outcome.transcript)))
        if outcome.log:
            parts.append(_part(f"Log: {outcome.log}", _tail(_read(outcome.log))))
    return redacted("\n\n".join(parts) + "\n")


def _system():
    return _lines(
        {
            "time": datetime.now().astimezone().isoformat(timespec="seconds"),
            "plugin": plugin_version(),
            "QGIS": Qgis.QGIS_VERSION,
            "Qt": f"{QT_VERSION_STR}, PyQt {PYQT_VERSION_STR}",
            "Python of QGIS": platform.python_version(),
            "system": f"{platform.platform()}, {platform.machine()}, {os.cpu_count()} processors",
            "language": QgsApplication.locale(),
            "encoding": sys.getfilesystemencoding(),
        }
    )


def _engine(handshake):
    python = settings.engine_python()
    there = "" if not python or os.path.exists(python) else " (does not exist)"
    told = {"Python": f"{python}{there}" or "none chosen"}
    if isinstance(handshake, EngineUnusable):
        told.update(unusable=handshake.message, hint=handshake.hint)
        return f"{_lines(told)}\n{_tail(handshake.details)}".rstrip()
    if handshake is not None:
        told.update(handshake.versions)
        for device in handshake.devices:
            gigabytes = f"{device.memory_bytes / 1e9:.1f} GB"
            told[f"device {device.name}"] = f"{device.description}, {gigabytes}"
    return _lines(told)


def _settings():
    stored = QgsSettings()
    stored.beginGroup(settings.PREFIX)
    told = {key: str(stored.value(key)) for key in sorted(stored.allKeys())}
    told.update(
        {name: value for name, value in sorted(os.environ.items()) if name.upper() in VARIABLES}
    )
    return _lines({key: value for key, value in told.items() if len(value) <= LONGEST_SETTING})


def _part(title, text):
    return f"{title}\n{'-' * len(title)}\n{text}" if text else title


def _lines(told):
    return "\n".join(f"{name}: {value}" for name, value in told.items() if value)


def _tail(text):
    return "\n".join(text.splitlines()[-TAIL_LINES:])[-TAIL_CHARACTERS:]


def _read(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError as error:
        return f"(cannot be read: {error.strerror})"
