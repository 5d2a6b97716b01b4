"""The plugin in the user's language."""

from qgis.core import QgsApplication
from qgis.PyQt.QtCore import QCoreApplication, QTranslator

from .bundle import resources_folder

CONTEXT = "GeoCFM"  # of every text, in code and in forms (a form's <class> is its context)


def tr(text):
    """Give a text in the user's language; {placeholders} are filled in after that."""
    return QCoreApplication.translate(CONTEXT, text)


def install_translator():
    """Load the translation for QGIS's language; give the translator to keep, or None."""
    translator = QTranslator()
    language = QgsApplication.locale()
    folder = resources_folder() / "i18n"
    for name in (f"geocfm_{language}", f"geocfm_{language.split('_')[0]}"):
        if translator.load(name, str(folder)):
            QCoreApplication.installTranslator(translator)
            return translator
    return None


def remove_translator(translator):
    """Take the translation away again, if there was one."""
    if translator is not None:
        QCoreApplication.removeTranslator(translator)
