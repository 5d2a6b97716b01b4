"""A column of a tree as wide as its texts need, until the user drags it to another width."""

from qgis.PyQt.QtWidgets import QHeaderView

NARROWEST = 30


class FittingColumn:
    """Fits one column; another takes the room that is left."""

    def __init__(self, tree, column, filler, widest):
        """widest: the share of the tree that the column takes at most of its own accord."""
        self._tree = tree
        self._column = column
        self._widest = widest
        self._is_fitting = False
        self._by_hand = False
        header = tree.header()
        header.setStretchLastSection(False)
        header.setMinimumSectionSize(NARROWEST)
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setSectionResizeMode(column, QHeaderView.ResizeMode.Interactive)
        header.setSectionResizeMode(filler, QHeaderView.ResizeMode.Stretch)
        header.sectionResized.connect(self._on_resized)

    def fit(self):
        """Make the column as wide as its texts, if the user has not chosen its width."""
        if self._by_hand:
            return
        tree = self._tree
        needed = max(
            tree.sizeHintForColumn(self._column), tree.header().sectionSizeHint(self._column)
        )
        self._is_fitting = True
        tree.setColumnWidth(self._column, min(needed, int(self._widest * tree.viewport().width())))
        self._is_fitting = False

    def _on_resized(self, column, _old, _new):
        if column == self._column and not self._is_fitting:
            self._by_hand = True
