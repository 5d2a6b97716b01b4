"""GeoCFM in QGIS. Importing this folder loads nothing of QGIS until QGIS asks for the plugin."""


def classFactory(iface):
    """Give QGIS the plugin (the name of this function is QGIS's)."""
    from .plugin import GeoCFMPlugin

    return GeoCFMPlugin(iface)
