"""What build.py is made of: environments, tests, the plugin zip, translations, QGIS itself."""
