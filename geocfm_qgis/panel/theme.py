"""QGIS's own icons for states, in the size of a line of text."""

from qgis.core import QgsApplication
from qgis.PyQt.QtGui import QPalette

from .step import READY, TO_DO, WRONG

STATE_ICONS = {READY: "mIconSuccess", TO_DO: "mIconHistory", WRONG: "mIconWarning"}
REMARK, PROBLEM, FAILURE = "mIconInfo", "mIconWarning", "mIconDelete"
WORKING, WAITING = "mTaskRunning", "mTaskQueued"
DONE, STOPPED, TO_MEND = "mIconSuccess", "mTaskCancel", "mIconHistory"
MARK_PX = 16
MUTED = 0.62  # opacity


def theme_icon(name):
    """Give an icon of QGIS's theme."""
    return QgsApplication.getThemeIcon(f"/{name}.svg")


def mark(label, name):
    """Show an icon of the theme on a label, sharp on every screen."""
    label.setPixmap(theme_icon(name).pixmap(MARK_PX, MARK_PX))
    label.setFixedWidth(MARK_PX + 2)


def text_colour(label):
    """Give the colour of a label's text, which dark themes tell to labels only."""
    label.ensurePolished()
    return label.palette().color(label.foregroundRole())


def mute(label):
    """Show a label's text in a quieter colour, in light and dark themes alike."""
    palette = label.palette()
    colour = palette.color(QPalette.ColorRole.WindowText)
    colour.setAlphaF(MUTED)
    palette.setColor(QPalette.ColorRole.WindowText, colour)
    label.setPalette(palette)
