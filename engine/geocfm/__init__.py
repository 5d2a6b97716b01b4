"""GeoCFM: where mineral occurrences lie, given geo-images, learned from where some are known."""

from geocfm.own_data import keep_to_own_data

__version__ = "0.1.0"

keep_to_own_data()  # before rasterio is loaded, which looks at once
