"""The tutorial in a window of its own, as it comes with the plugin."""

from qgis.PyQt.QtCore import Qt, QUrl
from qgis.PyQt.QtGui import QImage, QTextDocument
from qgis.PyQt.QtWidgets import QDialog, QTextBrowser, QVBoxLayout

from .bundle import tutorial_file
from .compat import IMAGE_RESOURCE
from .translation import tr

SIZE = (980, 760)
WIDEST_PICTURE = 900  # pixels
MARGIN = 16


class HelpWindow(QDialog):
    """Shows docs/tutorial.md with its pictures."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self.setWindowTitle(tr("GeoCFM: tutorial"))
        self.browser = TutorialBrowser(self)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.addWidget(self.browser)
        self.resize(*SIZE)


class TutorialBrowser(QTextBrowser):
    """A text whose pictures are no wider than its window."""

    def __init__(self, parent=None):
        super().__init__(parent)
        self.setOpenExternalLinks(True)
        self.document().setDocumentMargin(MARGIN)
        self.setSource(
            QUrl.fromLocalFile(str(tutorial_file())), QTextDocument.ResourceType.MarkdownResource
        )

    def loadResource(self, kind, url):
        """Give what the text names, pictures smaller where they are too wide."""
        if kind == IMAGE_RESOURCE:
            picture = QImage(self.source().resolved(url).toLocalFile())
            if picture.width() > WIDEST_PICTURE:
                smooth = Qt.TransformationMode.SmoothTransformation
                return picture.scaledToWidth(WIDEST_PICTURE, smooth)
            return picture
        return super().loadResource(kind, url)
