"""The tutorial in a window of its own, as it comes with the plugin."""

from qgis.PyQt.QtCore import QUrl
from qgis.PyQt.QtGui import QTextDocument
from qgis.PyQt.QtWidgets import QDialog, QTextBrowser, QVBoxLayout

from .bundle import tutorial_file
from .translation import tr

SIZE = (980, 760)


class HelpWindow(QDialog):
    """Shows docs/tutorial.md with its pictures."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self.setWindowTitle(tr("GeoCFM: tutorial"))
        self.browser = QTextBrowser(self)
        self.browser.setOpenExternalLinks(True)
        self.browser.setSource(
            QUrl.fromLocalFile(str(tutorial_file())), QTextDocument.ResourceType.MarkdownResource
        )
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.browser)
        self.resize(*SIZE)
