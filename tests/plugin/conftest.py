"""What the plugin's tests share; they run in QGIS's own Python, which has no engine."""

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

# before QGIS starts: a profile of the tests' own, not that of whoever runs them
PROFILE = tempfile.mkdtemp(prefix="geocfm-profile-")
atexit.register(shutil.rmtree, PROFILE, ignore_errors=True)
os.environ["QGIS_CUSTOM_CONFIG_PATH"] = PROFILE


@pytest.fixture(autouse=True)
def own_settings(qgis_app, tmp_path, monkeypatch):
    """Settings of QGIS in a file of each test's own."""
    from qgis.core import QgsApplication, QgsSettings
    from qgis.PyQt.QtCore import QSettings

    monkeypatch.delenv("GEOCFM_PYTHON", raising=False)
    folder = tmp_path / "settings"
    scope = QSettings.Format.IniFormat, QSettings.Scope.UserScope
    QSettings.setPath(*scope, str(folder))
    assert str(folder) in QgsSettings().fileName()
    # else QGIS writes into every GeoPackage that it shows, the sample's in the repository too
    QgsSettings().setValue("qgis/walForSqlite3", False)
    yield folder
    QSettings.setPath(*scope, QgsApplication.qgisSettingsDirPath())


@pytest.fixture(scope="session")
def engine_python():
    """The Python that runs the real engine."""
    python = os.environ.get("GEOCFM_TEST_PYTHON") or str(ROOT / ".venv" / "bin" / "python")
    assert Path(python).exists(), f"no engine: {python}"
    return python


@pytest.fixture
def sample_project(qgis_new_project):
    """The project of this QGIS with the sample layers in it."""
    from qgis.core import QgsProject

    from geocfm_qgis.sample_data import add_sample_layers

    project = QgsProject.instance()
    assert add_sample_layers(project) == []
    return project


@pytest.fixture(scope="module")
def provider(qgis_app, qgis_processing):
    """Our algorithms, in Processing."""
    from qgis.core import QgsApplication

    from geocfm_qgis.algorithms.provider import GeoCFMProvider

    provider = GeoCFMProvider()
    registry = QgsApplication.processingRegistry()
    assert registry.addProvider(provider)
    yield provider
    registry.removeProvider(provider)


@pytest.fixture
def context(provider, sample_project):
    """A context of Processing with the sample layers."""
    from qgis.core import QgsProcessingContext

    context = QgsProcessingContext()
    context.setProject(sample_project)
    yield context
    context.temporaryLayerStore().removeAllMapLayers()  # before QGIS ends, else it crashes


@pytest.fixture
def engine(monkeypatch, tmp_path):
    """An engine that behaves as asked; call it with a behaviour of the fake one."""

    from fake_engine_fixture import fake_python

    def behave(behaviour="succeed", **variables):
        python = fake_python(tmp_path / "engine", behaviour, **variables)
        monkeypatch.setenv("GEOCFM_PYTHON", python)

    behave()
    return behave
