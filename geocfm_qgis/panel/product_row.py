"""One product in the list of results: a tick, its name of file, and its options."""

from __future__ import annotations

from qgis.PyQt.QtCore import QObject, Qt, pyqtSignal
from qgis.PyQt.QtWidgets import (
    QCheckBox,
    QDoubleSpinBox,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QSpinBox,
    QStyle,
    QVBoxLayout,
    QWidget,
)

from ..translation import tr
from .choices import ProductChoice
from .result_files import with_suffix
from .theme import mute

FILE_NAME_LETTERS = 14
NUMBER_PX = 64
IN_A_LINE = 2  # options


class ProductRow(QObject):
    """The widgets of one product, put into two rows of a grid."""

    changed = pyqtSignal()

    def __init__(self, product, grid):
        super().__init__(grid.parentWidget())
        self.product = product
        self.tick = QCheckBox(product.title)
        self.tick.setObjectName(f"{product.key}Check")
        self.tick.setToolTip(product.explanation)
        self.file_edit = file_name_edit(product.file_name + product.suffix)
        self.file_edit.setObjectName(f"{product.key}File")
        self.options = {}
        row = grid.rowCount()
        grid.addWidget(self.tick, row, 0)
        grid.addWidget(self.file_edit, row, 1)
        self.details = self._details(product)
        grid.addWidget(self.details, row + 1, 0, 1, 2)
        self.tick.toggled.connect(self._show_state)
        self.tick.toggled.connect(self.changed)
        self.file_edit.textChanged.connect(self.changed)
        self._show_state()

    def choice(self):
        """Give the ProductChoice, or None if the product is not wanted."""
        if not self.tick.isChecked() or not self.tick.isEnabled():
            return None
        name = with_suffix(
            self.file_edit.text() or self.file_edit.placeholderText(), self.product.suffix
        )
        options = {key: box.value() for key, box in self.options.items()}
        return ProductChoice(self.product.key, name, options)

    def set_choice(self, choice):
        """Show a ProductChoice; None unticks."""
        self.tick.setChecked(choice is not None)
        if choice is None:
            return
        standard = choice.file_name == self.file_edit.placeholderText()
        self.file_edit.setText("" if standard else choice.file_name)
        for key, value in choice.options.items():
            if key in self.options:
                box = self.options[key]
                box.setValue(int(value) if isinstance(box, QSpinBox) else float(value))

    def set_possible(self, possible, why_not=""):
        """Grey the product out with its reason when the other choices rule it out."""
        self.tick.setEnabled(possible)
        self.tick.setToolTip(self.product.explanation if possible else why_not)
        self._show_state()

    def _details(self, product):
        details = QWidget()
        lines = QVBoxLayout(details)
        style = self.tick.style()
        indent = style.pixelMetric(QStyle.PixelMetric.PM_IndicatorWidth)
        indent += style.pixelMetric(QStyle.PixelMetric.PM_CheckBoxLabelSpacing)
        lines.setContentsMargins(indent, 0, 0, 0)
        if not product.options:
            sentence = QLabel(product.explanation)
            sentence.setWordWrap(True)
            mute(sentence)
            lines.addWidget(sentence)
        for first in range(0, len(product.options), IN_A_LINE):
            line = QHBoxLayout()
            for option in product.options[first : first + IN_A_LINE]:
                box = self.options[option.key] = _number_box(option)
                box.valueChanged.connect(self.changed)
                label = QLabel(option.label)
                label.setBuddy(box)
                line.addWidget(label)
                line.addWidget(box)
            line.addStretch()
            lines.addLayout(line)
        return details

    def _show_state(self):
        wanted = self.tick.isChecked() and self.tick.isEnabled()
        self.file_edit.setEnabled(wanted)
        self.details.setVisible(wanted)


def _number_box(option):
    box = QDoubleSpinBox() if option.decimals else QSpinBox()
    box.setObjectName(f"{option.key}Spin")
    box.setMinimumWidth(NUMBER_PX)
    if option.decimals:
        box.setDecimals(option.decimals)
    box.setRange(option.least, option.most)
    box.setSpecialValueText(option.nothing)
    box.setSuffix(f" {option.unit}" if option.unit else "")
    box.setValue(option.default)
    box.setToolTip(option.tip)
    return box


def file_name_edit(standard):
    """Give a line for the name of a file; left empty it means the standard one."""
    edit = QLineEdit()
    edit.setPlaceholderText(standard)
    edit.setToolTip(tr("The name of the file in the folder of the run."))
    edit.setMinimumWidth(edit.fontMetrics().averageCharWidth() * FILE_NAME_LETTERS)
    edit.setAlignment(Qt.AlignmentFlag.AlignLeft)
    return edit
