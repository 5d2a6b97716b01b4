"""What is wrong with the engine, above the steps, and the way to mend it."""

from qgis.PyQt.QtWidgets import QApplication, QFrame

from ..bundle import load_form
from ..diagnostics import diagnostics_text


class EngineBanner(QFrame):
    """Follows an EngineState; it is hidden while the engine works."""

    def __init__(self, engine, parent=None):
        super().__init__(parent)
        self._engine = engine
        load_form("engine_banner", self)
        self.engineDiagnosticsButton.clicked.connect(self._copy_diagnostics)
        self.refresh()

    def refresh(self):
        """Show what the engine's state is now."""
        self.bannerText.setText(self._engine.problem)
        self.engineDiagnosticsButton.setVisible(self._engine.unusable is not None)
        self.setVisible(bool(self._engine.problem))

    def _copy_diagnostics(self):
        QApplication.clipboard().setText(diagnostics_text(handshake=self._engine.unusable))
