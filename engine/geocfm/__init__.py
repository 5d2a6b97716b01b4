"""GeoCFM: where mineral occurrences lie, given geo-images, learned from positives alone."""

__version__ = "0.1.0"
