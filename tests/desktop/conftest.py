"""What the tests of the installed plugin share; they run in the engine's Python and start QGIS."""

import signal
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session", autouse=True)
def told_to_end():
    """End in order when told to: QGIS and its screen are processes of their own."""
    before = signal.signal(signal.SIGTERM, lambda *_: pytest.exit("told to end", 143))
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture(scope="session")
def archive(tmp_path_factory):
    """The plugin's zip, as users get it."""
    from building.plugin_zip import build_plugin_zip

    return build_plugin_zip(ROOT, tmp_path_factory.mktemp("dist"))[0]


@pytest.fixture(scope="session")
def settings():
    """The settings of a user who has an engine: the one of this Python."""
    from building.qgis_desktop import profile_settings

    return profile_settings(Path(sys.executable), "en_US")
