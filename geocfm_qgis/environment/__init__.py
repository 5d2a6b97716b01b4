"""The engine's environment: a Python of its own, found or made, and never QGIS's."""
