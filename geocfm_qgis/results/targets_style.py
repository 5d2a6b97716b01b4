"""Targets as people read them: classes of ranks, a form with units, and a tip on the map."""

from __future__ import annotations

from dataclasses import dataclass

from qgis.core import (
    QgsAttributeEditorContainer,
    QgsAttributeEditorField,
    QgsEditorWidgetSetup,
)

from ..compat import FORM_BY_GROUPS, make_group_box
from ..translation import tr

RANK = "rank"


@dataclass(frozen=True)
class _Field:
    """A field of a target: what it is called, and how its number is written."""

    name: str
    alias: str
    decimals: int | None = None  # None: no number
    unit: str = ""


def describe_targets(layer):
    """Label the classes of targets.qml, and give the layer its form and its tip."""
    _label_classes(layer.renderer())
    groups = _groups()
    there = {title: _present(layer, fields) for title, fields in groups.items()}
    for fields in there.values():
        for index, field in fields:
            layer.setFieldAlias(index, field.alias)
            layer.setEditorWidgetSetup(index, _widget(field))
    layer.setEditFormConfig(_form(layer, there))
    layer.setDisplayExpression(f"""'{tr("Target")} ' || "{RANK}\"""")
    layer.setMapTipTemplate(_tip(layer))


def _groups():
    """The fields of a target in groups, as the engine writes them."""
    mean = tr("× regional mean")
    return {
        tr("Target"): (
            _Field(RANK, tr("Rank"), 0),
            _Field("area_km2", tr("Area"), 1, "km²"),
        ),
        tr("Expected occurrences"): (
            _Field("mass_share", tr("Share of all that are expected (0 to 1)"), 4),
            _Field("lift", tr("Mean density"), 1, mean),
            _Field("peak", tr("Highest density"), 1, mean),
        ),
        tr("How far to trust it"): (
            _Field("uncertainty", tr("Disagreement of the networks (0: none)"), 2),
            _Field("outside_experience", tr("Part outside what the model has seen (0 to 1)"), 2),
            _Field("layers", tr("Layers that matter here")),
        ),
        tr("Known occurrences"): (
            _Field("known_inside", tr("Inside"), 0),
            _Field("nearest_known_km", tr("Distance to the nearest"), 1, "km"),
        ),
    }


def _label_classes(renderer):
    """Ranks are whole numbers, so the bounds of the classes lie between them."""
    ranges = renderer.ranges()
    for number, each in enumerate(ranges):
        first, last = round(each.lowerValue() + 0.5), round(each.upperValue() - 0.5)
        if number == len(ranges) - 1:
            text = tr("rank {first} and below").format(first=first)
        elif first == last:
            text = tr("rank {first}").format(first=first)
        else:
            text = tr("ranks {first} to {last}").format(first=first, last=last)
        renderer.updateRangeLabel(number, text)


def _present(layer, fields):
    found = ((layer.fields().indexOf(field.name), field) for field in fields)
    return [(index, field) for index, field in found if index >= 0]


def _widget(field):
    if field.decimals is None:
        return QgsEditorWidgetSetup("TextEdit", {})
    return QgsEditorWidgetSetup(
        "Range",
        {
            "Style": "SpinBox",
            "AllowNull": True,
            "Precision": field.decimals,
            "Step": 1,
            "Suffix": f" {field.unit}" if field.unit else "",
        },
    )


def _form(layer, groups):
    config = layer.editFormConfig()
    config.setLayout(FORM_BY_GROUPS)
    config.clearTabs()
    root = config.invisibleRootContainer()
    for title, fields in groups.items():
        if not fields:
            continue
        box = QgsAttributeEditorContainer(title, root)
        make_group_box(box)
        for index, field in fields:
            box.addChildElement(QgsAttributeEditorField(field.name, index, box))
        config.addTab(box)
    return config


def _tip(layer):
    """A few lines of HTML; what is null is left out by QGIS's own expressions."""
    lines = [
        ("area_km2", tr("{value} km²"), 1, 1),
        ("lift", tr("{value} × the mean density of the region"), 1, 1),
        ("mass_share", tr("{value} % of all expected occurrences"), 1, 100),
        ("uncertainty", tr("networks disagree by {value} %"), 0, 100),
        ("outside_experience", tr("{value} % outside what the model has seen"), 0, 100),
        ("known_inside", tr("{value} known occurrences inside"), 0, 1),
        ("nearest_known_km", tr("{value} km to the nearest known one"), 1, 1),
    ]
    there = layer.fields().names()
    parts = [f"<b>{tr('Target')} [% {_escaped(RANK)} %]</b>"]
    for name, text, decimals, factor in lines:
        if name in there:
            before, _, after = (_quoted(part) for part in text.partition("{value}"))
            number = f'format_number("{name}" * {factor}, {decimals})'
            parts.append(f"[% coalesce('<br>' || {before} || {number} || {after}, '') %]")
    if "layers" in there:
        title = _quoted(tr("Layers that matter here") + ": ")
        parts.append(
            f"""[% coalesce('<br>' || {title} || nullif({_escaped("layers")}, ''), '') %]"""
        )
    return "\n".join(parts)


def _escaped(field):
    """A field as QGIS's expressions make it text within HTML: it holds names of layers."""
    text = f'to_string("{field}")'
    for sign, entity in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;")):
        text = f"replace({text}, '{sign}', '{entity}')"
    return text


def _quoted(text):
    """A text of QGIS's expressions."""
    return "'" + text.replace("'", "''") + "'"
