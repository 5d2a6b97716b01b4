"""Which band of the project is which layer of a model: found by name, corrected by hand."""

from __future__ import annotations

from qgis.core import QgsProject
from qgis.PyQt.QtCore import QObject, Qt, pyqtSignal
from qgis.PyQt.QtWidgets import QComboBox, QLabel

from ..jobs.layer_matching import match
from ..translation import tr
from .choices import Channel

NAME_LETTERS = 10


class LayerMatches(QObject):
    """A row with a combo box for each layer that a model asks for."""

    changed = pyqtSignal()

    def __init__(self, layout, parent):
        super().__init__(parent)
        self._layout = layout
        self._combos = {}
        self._categorical = {}
        self._channels = []
        self._by_hand = {}  # name of the model's layer: (layer, band), or None for nothing

    def set_card(self, card):
        """Show rows for the layers of this model; None shows none."""
        while self._layout.rowCount():
            self._layout.removeRow(0)
        self._combos, self._by_hand = {}, {}
        layers = card["layers"] if card else ()
        self._categorical = {each["name"]: bool(each.get("categorical")) for each in layers}
        for number, name in enumerate(self._categorical):
            combo = QComboBox()
            combo.setObjectName(f"matchCombo{number}")
            combo.setSizeAdjustPolicy(
                QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon
            )
            combo.setMinimumContentsLength(NAME_LETTERS)
            combo.activated.connect(lambda _, name=name: self._on_choice(name))
            self._combos[name] = combo
            label = QLabel(name)
            label.setTextFormat(Qt.TextFormat.PlainText)
            label.setToolTip(tr("The model asks for a layer of this name."))
            label.setBuddy(combo)
            self._layout.addRow(label, combo)
        self._fill()

    def set_channels(self, channels):
        """Offer these bands of the project; what was chosen by hand stays while it is there."""
        if list(channels) != self._channels:
            self._channels = list(channels)
            self._fill()

    def set_matches(self, matches):
        """Show these Channels, each for the model's layer of its name."""
        self._by_hand.update({each.name: (each.layer, each.band) for each in matches})
        self._fill()

    def matches(self):
        """Give the chosen bands as Channels with the names the model knows."""
        chosen = ((name, combo.currentData()) for name, combo in self._combos.items())
        return tuple(
            Channel(place[0], place[1], name, self._categorical[name])
            for name, place in chosen
            if place
        )

    def missing(self):
        """Give the names of the model's layers that have no band."""
        return [name for name, combo in self._combos.items() if not combo.currentData()]

    def shared(self):
        """Give {label of a band: names of the model's layers} of bands chosen more than once."""
        chosen = {}
        for name, combo in self._combos.items():
            if combo.currentData():
                chosen.setdefault((combo.currentData(), combo.currentText()), []).append(name)
        return {label: names for (_, label), names in chosen.items() if len(names) > 1}

    def names(self):
        """Give the names of all layers the model asks for."""
        return list(self._combos)

    def _fill(self):
        found = match(list(self._combos), self._channels)
        there = {(each.layer, each.band) for each in self._channels}
        for name, combo in self._combos.items():
            place = (found[name].layer, found[name].band) if found[name] else None
            if name in self._by_hand and (self._by_hand[name] in there or not self._by_hand[name]):
                place = self._by_hand[name]
            combo.clear()
            combo.addItem(tr("(choose a layer)"), None)
            for channel in self._channels:
                combo.addItem(_label(channel), (channel.layer, channel.band))
            position = next((n for n in range(combo.count()) if combo.itemData(n) == place), 0)
            combo.setCurrentIndex(position)

    def _on_choice(self, name):
        self._by_hand[name] = self._combos[name].currentData()
        self.changed.emit()


def _label(channel):
    """The band's name, with its layer's when that says more."""
    layer = QgsProject.instance().mapLayer(channel.layer)
    if layer is None or channel.name.startswith(layer.name()):
        return channel.name
    return tr("{name} ({layer}, band {band})").format(
        name=channel.name, layer=layer.name(), band=channel.band
    )
