"""GeoCFM: where mineral occurrences lie, given geo-images, learned from where some are known."""

__version__ = "0.1.0"
