"""The plugin's texts are found, kept and compiled; and the German translation is whole."""

import struct
from pathlib import Path

import pytest

from building import translations
from building.translations import (
    Text,
    Translation,
    TranslationError,
    collect,
    read_catalogue,
    update,
)

ROOT = Path(__file__).resolve().parents[2]
GERMAN = ROOT / translations.CATALOGUES / "geocfm_de.ts"

FORM = """<?xml version="1.0" encoding="UTF-8"?>
<ui version="4.0"><class>{name}</class><widget class="QWidget" name="GeoCFM">
<property name="windowTitle"><string>{title}</string></property>
<property name="styleSheet"><string notr="true">color: red</string></property>
<property name="keys"><stringlist notr="true"><string>internal</string></stringlist></property>
<property name="text"><string comment="of a door">Open</string></property>
<property name="suffix"><string> %</string></property>
<property name="toolTip"><string/></property>
</widget></ui>
"""


@pytest.fixture
def plugin(tmp_path):
    """A tree with one module and one form."""
    for folder in ("geocfm_qgis/panel", translations.FORMS, translations.CATALOGUES):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "geocfm_qgis/panel/step.py").write_text(
        'from ..translation import tr\nTITLE = tr("Choose {count} "\n           "layers")\n'
    )
    form = FORM.format(name="GeoCFM", title="Layers &amp; bands")
    (tmp_path / translations.FORMS / "step.ui").write_text(form)
    return tmp_path


def test_texts_of_code_and_forms_are_found(plugin):
    assert collect(plugin) == {
        Text("Choose {count} layers"): ["geocfm_qgis/panel/step.py"],
        Text("Layers & bands"): ["resources/forms/step.ui"],
        Text("Open", "of a door"): ["resources/forms/step.ui"],
    }


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('tr(f"{count} layers")', "not one put together"),
        ('tr("a" + name)', "not one put together"),
        ("tr(TITLE)", "not one put together"),
        ('tr("a", "b")', "not one put together"),
        ('self.tr("Layers")', "has another context"),
        ("titles = map(tr, names)", "cannot be found"),
    ],
)
def test_texts_that_cannot_be_found_are_said(plugin, code, expected):
    (plugin / "geocfm_qgis/bad.py").write_text(f"from .translation import tr\n{code}\n")
    with pytest.raises(TranslationError, match=r"geocfm_qgis/bad\.py, line 2: .*" + expected):
        collect(plugin)


def test_a_form_of_another_context_is_said(plugin):
    (plugin / translations.FORMS / "step.ui").write_text(FORM.format(name="Form", title="Layers"))
    with pytest.raises(TranslationError, match=r"step\.ui, <class>Form</class> must be GeoCFM"):
        collect(plugin)


def test_an_update_keeps_translations_and_drops_what_is_gone(plugin):
    path = plugin / translations.CATALOGUES / "geocfm_de.ts"
    assert [text.source for text in update(plugin, path).new] == [
        "Choose {count} layers",
        "Layers & bands",
        "Open",
    ]
    fresh = path.read_text(encoding="utf-8")
    translated = fresh.replace(
        '&amp; bands</source>\n        <translation type="unfinished">',
        "&amp; bands</source>\n        <translation>Ebenen &amp; Kanäle",
    ).replace(
        'layers</source>\n        <translation type="unfinished">',
        'layers</source>\n        <translation type="unfinished">a draft',
    )
    path.write_text(translated, encoding="utf-8")
    (plugin / "geocfm_qgis/more.py").write_text('tr("More")\n')
    form = FORM.format(name="GeoCFM", title="Layers &amp; bands").replace("Open", "Ajar")
    (plugin / translations.FORMS / "step.ui").write_text(form)
    changes = update(plugin, path)
    assert changes.new == [Text("Ajar", "of a door"), Text("More")]
    assert changes.removed == [Text("Open", "of a door")]
    assert changes.unfinished == 3
    assert read_catalogue(path) == {
        Text("Ajar", "of a door"): Translation(),
        Text("Choose {count} layers"): Translation("a draft"),
        Text("Layers & bands"): Translation("Ebenen & Kanäle", finished=True),
        Text("More"): Translation(),
    }
    once = path.read_bytes()
    update(plugin, path)
    assert path.read_bytes() == once


def messages_of(content):
    """The translations in a .qm file by (hash, source, comment, context), read as Qt reads them."""
    assert content[:16] == translations.QM_MAGIC
    sections, at = {}, 16
    while at < len(content):
        tag, length = struct.unpack_from(">BI", content, at)
        sections[tag] = content[at + 5 : at + 5 + length]
        at += 5 + length
    found = {}
    hashes = list(struct.iter_unpack(">II", sections[0x42]))
    assert hashes == sorted(hashes)  # Qt halves the list to find one
    for key, offset in hashes:
        parts, at = {}, offset
        while sections[0x69][at] != 1:
            tag, length = struct.unpack_from(">BI", sections[0x69], at)
            parts[tag] = sections[0x69][at + 5 : at + 5 + length]
            at += 5 + length
        found[key, parts[6].decode(), parts[8].decode(), parts[7].decode()] = parts[3].decode(
            "utf-16-be"
        )
    return found


def test_only_finished_translations_are_compiled(plugin):
    path = plugin / translations.CATALOGUES / "geocfm_de.ts"
    update(plugin, path)
    assert messages_of(translations.compile_ts(path)) == {}
    text = path.read_text(encoding="utf-8")
    path.write_text(
        text.replace(
            'door</comment>\n        <translation type="unfinished">',
            "door</comment>\n        <translation>Öffnen 𝄞",
        ),
        encoding="utf-8",
    )
    # 0x005B01B2: the ELF hash of b"Openof a door", worked out by Qt's lrelease
    expected = {(0x005B01B2, "Open", "of a door", "GeoCFM"): "Öffnen 𝄞"}
    assert messages_of(translations.compile_ts(path)) == expected


@pytest.mark.parametrize(
    ("source", "translation", "expected"),
    [
        ("{count} points", "{zahl} Punkte", "placeholders"),
        ("<b>Run</b>", "Starten", "tags"),
        ("&Run", "Starten", "access key"),
        ("Layers:", "Ebenen", "last sign"),
        (" points", "Punkte", "first or last blanks"),
        ("&Run {x}", "Sta&rten {x}", None),
        ("R&amp;D", "F&amp;E", None),
    ],
)
def test_disagreements_are_said(source, translation, expected):
    catalogue = {Text(source): Translation(translation, finished=True)}
    problems = translations.disagreements(catalogue)
    assert [problem.split("the same ")[1] for problem in problems] == (
        [f"{expected}."] if expected else []
    )


def test_german_is_complete():
    german = read_catalogue(GERMAN)
    assert list(german) == list(collect(ROOT)), "run `python3 build.py translate`"
    assert [text.source for text, entry in german.items() if not entry.finished] == []


def test_german_agrees_with_the_texts():
    assert translations.disagreements(read_catalogue(GERMAN)) == []
