"""The unpacked zip is all the plugin needs: every module, form and text of it loads in QGIS."""

import json
import os
import subprocess
import zipfile

import pytest

from building import qgis_desktop

LOOK = """
import importlib, json, pkgutil, sys
from pathlib import Path

plugins = Path(sys.argv[1])
sys.path.insert(0, str(plugins))
from qgis.core import QgsApplication, QgsSettings
from qgis.PyQt import uic

application = QgsApplication([], True)
application.initQgis()
QgsSettings().setValue("locale/overrideFlag", True)
QgsSettings().setValue("locale/userLocale", "de")
sys.path.append(str(Path(QgsApplication.pkgDataPath()) / "python" / "plugins"))

import geocfm_qgis

for module in pkgutil.walk_packages(geocfm_qgis.__path__, "geocfm_qgis."):
    if not module.name.startswith("geocfm_qgis.engine."):
        importlib.import_module(module.name)

from geocfm_qgis import bundle, translation

translator = translation.install_translator()
forms = {}
for path in sorted((bundle.resources_folder() / "forms").glob("*.ui")):
    forms[path.name] = uic.loadUi(str(path)) is not None
print(json.dumps({
    "files": sorted(
        Path(module.__file__).relative_to(plugins).as_posix()
        for name, module in sys.modules.items()
        if name.split(".")[0] == "geocfm_qgis" and module.__file__
    ),
    "folders": [str(bundle.resources_folder()), str(bundle.engine_folder()),
                str(bundle.constraints_file()), str(bundle.tutorial_file())],
    "forms": sorted(forms),
    "title": translation.tr("Load the sample data"),
}))
translation.remove_translator(translator)
application.exitQgis()
"""


@pytest.fixture(scope="module")
def plugins(archive, tmp_path_factory):
    """A folder of plugins with ours in it, far from the repository."""
    folder = tmp_path_factory.mktemp("plugins")
    with zipfile.ZipFile(archive) as opened:
        opened.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def seen(plugins, tmp_path_factory):
    """What a QGIS sees that has nothing but the unpacked zip."""
    home = tmp_path_factory.mktemp("home")
    (home / "look.py").write_text(LOOK)
    done = subprocess.run(
        [qgis_desktop.qgis_python(), "look.py", str(plugins)],
        cwd=home,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "QT_QPA_PLATFORM": "offscreen"},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_module_is_there_and_loads(seen, plugins):
    shipped = {path.relative_to(plugins).as_posix() for path in plugins.rglob("*.py")}
    wanted = {name for name in shipped if not name.startswith("geocfm_qgis/engine/")}
    assert set(seen["files"]) == wanted
    assert len(wanted) > 20


def test_all_it_brings_is_found_in_its_own_folder(seen, plugins):
    for place in seen["folders"]:
        assert place.startswith(str(plugins))
        assert os.path.exists(place)


def test_every_form_loads(seen, plugins):
    forms = (plugins / "geocfm_qgis" / "resources" / "forms").glob("*.ui")
    assert seen["forms"] == sorted(path.name for path in forms)
    assert seen["forms"]


def test_it_speaks_german(seen):
    assert seen["title"] == "Beispieldaten laden"
