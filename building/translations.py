"""The plugin's texts: found in code and forms, merged into .ts files, compiled to Qt's .qm.

Needs no Qt tools, so that the zip is made the same way everywhere.
"""

from __future__ import annotations

import ast
import re
import struct
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

CONTEXT = "GeoCFM"  # of every text; geocfm_qgis/translation.py asks for it
CODE, FORMS, CATALOGUES = "geocfm_qgis", "resources/forms", "resources/i18n"
PARTS = {  # what a translation must have as its text has it
    "placeholders": r"\{[^{}]*\}|%\d|%[sdn]\b",
    "tags": r"</?\w+[^<>]*>",
    "access key": r"&(?=\w)(?!\w+;)()",  # as a count: another letter may be the key
    "last sign": r"[.:…?!]\s*$|\.\.\.$",
    "first or last blanks": r"^\s+|\s+$",
}


class TranslationError(Exception):
    """Texts that cannot be found or read, one sentence each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(f"- {problem}" for problem in problems))
        self.problems = problems


@dataclass(frozen=True, order=True)
class Text:
    """A text a user can see; the comment tells equal texts of different meaning apart."""

    source: str
    comment: str = ""


@dataclass(frozen=True)
class Translation:
    """What a text is in another language; a draft is kept, but not shown to users."""

    text: str = ""
    finished: bool = False


@dataclass(frozen=True)
class Changes:
    """What an update did to a catalogue."""

    new: list[Text]
    removed: list[Text]
    unfinished: int  # texts that wait for a translation, old and new


# --- finding -------------------------------------------------------------------------------------


def collect(root: Path) -> dict[Text, list[str]]:
    """Give every text of the plugin and the files it stands in, sorted."""
    found: dict[Text, list[str]] = {}
    problems: list[str] = []
    readers = [(_texts_of_code, path) for path in (root / CODE).rglob("*.py")]
    readers += [(_texts_of_form, path) for path in (root / FORMS).glob("*.ui")]
    for read, path in sorted(readers, key=lambda reader: reader[1]):
        name = path.relative_to(root).as_posix()
        for text in read(path):
            if isinstance(text, str):
                problems.append(f"{name}, {text}")
            elif name not in found.setdefault(text, []):
                found[text].append(name)
    if problems:
        raise TranslationError(problems)
    return dict(sorted(found.items()))


def _texts_of_code(path: Path) -> Iterator[Text | str]:
    """Give the texts in calls of `tr`, and a sentence for each use that cannot be followed."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    called: set[ast.expr] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) == "tr":
            called.add(node.func)
            line = f"line {node.lineno}: "
            first = node.args[0] if len(node.args) == 1 and not node.keywords else None
            if _is_self_tr(node.func):
                yield line + "use tr of translation.py; a widget's own tr() has another context."
            elif not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
                yield line + "tr() takes one text as it stands, not one put together at run time."
            elif _is_text(first.value):
                yield Text(first.value)
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id == "tr" and node not in called:
            yield f"line {node.lineno}: tr is passed on; what it translates cannot be found."


def _is_self_tr(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _name(function.value) != "translation"


def _name(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _texts_of_form(path: Path) -> Iterator[Text | str]:
    form = _parsed(path)
    name = form.findtext("class")
    if name != CONTEXT:
        yield f"<class>{name}</class> must be {CONTEXT}: it is the context of the form's texts."
    for parent in form.iter():
        for child in parent.findall("string"):
            translated = "true" not in (child.get("notr"), parent.get("notr"))
            if translated and _is_text(child.text or ""):
                yield Text(child.text or "", child.get("comment", ""))


def _is_text(text: str) -> bool:
    """Tell whether there is anything to translate: a letter, not only signs and numbers."""
    return any(letter.isalpha() for letter in text)


# --- catalogues ----------------------------------------------------------------------------------


def read_catalogue(path: Path) -> dict[Text, Translation]:
    """Give the texts of a .ts file with their translations."""
    catalogue: dict[Text, Translation] = {}
    for context in _parsed(path).findall("context"):
        if context.findtext("name") != CONTEXT:
            raise TranslationError([f"{path.name}: every text belongs to the context {CONTEXT}."])
        for message in context.findall("message"):
            text = Text(message.findtext("source", ""), message.findtext("comment", ""))
            state = message.find("translation")
            if state is None:
                catalogue[text] = Translation()
            else:
                finished = state.get("type") is None and bool(state.text)
                catalogue[text] = Translation(state.text or "", finished)
    return catalogue


def disagreements(catalogue: Mapping[Text, Translation]) -> list[str]:
    """Say which translations differ from their text in placeholders, tags, keys or last sign."""
    problems = []
    for text, translation in catalogue.items():
        if translation.finished:
            for kind, pattern in PARTS.items():
                wanted = sorted(re.findall(pattern, text.source))
                if wanted != sorted(re.findall(pattern, translation.text)):
                    said = f"{text.source!r} and {translation.text!r}"
                    problems.append(f"{said} do not have the same {kind}.")
    return problems


def update(root: Path, path: Path) -> Changes:
    """Bring a .ts file up to date with the code and the forms, keeping its translations."""
    before = read_catalogue(path) if path.exists() else {}
    found = collect(root)
    after = {text: before.get(text, Translation()) for text in found}
    language = path.stem.partition("_")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_catalogue_text(language, after, found), encoding="utf-8", newline="\n")
    return Changes(
        new=[text for text in after if text not in before],
        removed=[text for text in before if text not in after],
        unfinished=sum(not translation.finished for translation in after.values()),
    )


def _catalogue_text(
    language: str, catalogue: Mapping[Text, Translation], files: Mapping[Text, list[str]]
) -> str:
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        "<!DOCTYPE TS>",
        f'<TS version="2.1" language="{language}" sourcelanguage="en">',
        "<context>",
        f"    <name>{CONTEXT}</name>",
    ]
    for text, translation in sorted(catalogue.items(), key=lambda item: item[0]):
        lines.append("    <message>")
        lines += [f'        <location filename="../../{file}"/>' for file in files[text]]
        lines.append(f"        <source>{escape(text.source)}</source>")
        if text.comment:
            lines.append(f"        <comment>{escape(text.comment)}</comment>")
        state = "" if translation.finished else ' type="unfinished"'
        lines.append(f"        <translation{state}>{escape(translation.text)}</translation>")
        lines.append("    </message>")
    return "\n".join([*lines, "</context>", "</TS>", ""])


def _parsed(path: Path) -> ET.Element:
    try:
        return ET.parse(path).getroot()  # noqa: S314 (our own files)
    except ET.ParseError as error:
        raise TranslationError([f"{path.name} is not XML: {error}."]) from error


# --- Qt's binary form ----------------------------------------------------------------------------

QM_MAGIC = bytes.fromhex("3cb86418caef9c95cd211cbf60a1bddd")
LANGUAGE, HASHES, MESSAGES = 0xA7, 0x42, 0x69  # sections of the file
END, TRANSLATION, SOURCE, IN_CONTEXT, COMMENT = 1, 3, 6, 7, 8  # parts of a message


def compile_ts(path: Path) -> bytes:
    """Give the .qm file of a .ts file: the finished translations, ordered by hash."""
    messages = b""
    places: list[tuple[int, int]] = []
    for text, translation in sorted(read_catalogue(path).items(), key=lambda item: _key(item[0])):
        if translation.finished:
            places.append((_key(text), len(messages)))
            messages += _part(TRANSLATION, translation.text.encode("utf-16-be"))
            messages += _part(COMMENT, text.comment.encode())
            messages += _part(SOURCE, text.source.encode())
            messages += _part(IN_CONTEXT, CONTEXT.encode())
            messages += bytes([END])
    hashes = b"".join(struct.pack(">II", *place) for place in places)
    language = path.stem.partition("_")[2].encode()
    sections = ((LANGUAGE, language), (HASHES, hashes), (MESSAGES, messages))
    return QM_MAGIC + b"".join(_part(tag, content) for tag, content in sections)


def _part(tag: int, content: bytes) -> bytes:
    return struct.pack(">BI", tag, len(content)) + content


def _key(text: Text) -> int:
    """Give the ELF hash under which Qt looks a text up."""
    value = 0
    for byte in (text.source + text.comment).encode():
        value = (value << 4) + byte
        high = value & 0xF0000000
        value = (value ^ (high >> 24)) & ~high & 0xFFFFFFFF
    return value or 1
