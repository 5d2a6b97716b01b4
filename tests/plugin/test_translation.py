"""Qt reads the translations that we compile as it reads those of its own tool."""

import shutil
import subprocess
from pathlib import Path

import pytest
from qgis.PyQt.QtCore import QCoreApplication, QTranslator

from building import translations

ROOT = Path(__file__).resolve().parents[2]
GERMAN = ROOT / translations.CATALOGUES / "geocfm_de.ts"
SMALL = """<TS version="2.1" language="de"><context><name>GeoCFM</name>
<message><source>Map &amp; {n} points</source>
<translation>Karte &amp; {n} Punkte</translation></message>
<message><source>Größe – 1</source><translation>Size – 1</translation></message>
<message><source>Open</source><comment>verb</comment><translation>Öffnen</translation></message>
<message><source>Open</source><comment>state</comment><translation>Offen</translation></message>
<message><source>Draft</source><translation type="unfinished">Entwurf</translation></message>
<message><source>two
lines</source><translation>zwei
Zeilen</translation></message>
</context></TS>
"""


@pytest.fixture
def speak():
    """Give a function that installs a .qm file and translates with it."""
    installed = []

    def load(path):
        translator = QTranslator()
        assert translator.load(str(path))
        QCoreApplication.installTranslator(translator)
        installed.append(translator)
        return lambda text: QCoreApplication.translate("GeoCFM", text.source, text.comment)

    yield load
    for translator in installed:
        QCoreApplication.removeTranslator(translator)


def compiled(catalogue, folder):
    path = folder / "ours.qm"
    path.write_bytes(translations.compile_ts(catalogue))
    return path


def test_qt_finds_every_finished_text(tmp_path, speak):
    catalogue = tmp_path / "geocfm_de.ts"
    catalogue.write_text(SMALL, encoding="utf-8")
    say = speak(compiled(catalogue, tmp_path))
    for text, translation in translations.read_catalogue(catalogue).items():
        assert say(text) == (translation.text if translation.finished else text.source)
    assert say(translations.Text("Not there")) == "Not there"


def test_qt_finds_every_german_text(tmp_path, speak):
    say = speak(compiled(GERMAN, tmp_path))
    german = translations.read_catalogue(GERMAN)
    assert len(german) > 50
    assert {text: say(text) for text in german} == {
        text: translation.text for text, translation in german.items()
    }


@pytest.mark.skipif(not shutil.which("lrelease"), reason="Qt's own compiler is not installed")
def test_qts_own_compiler_gives_the_same(tmp_path, speak):
    theirs = tmp_path / "theirs.qm"
    subprocess.run(["lrelease", "-silent", str(GERMAN), "-qm", str(theirs)], check=True)
    say = speak(theirs)
    for text, translation in translations.read_catalogue(GERMAN).items():
        assert say(text) == translation.text
