"""Emptying a layout of rows that are made anew."""


def clear_layout(layout):
    """Take all widgets out of a layout and let them go; they are gone from sight at once."""
    while layout.count():
        widget = layout.takeAt(0).widget()
        widget.setParent(None)
        widget.deleteLater()
