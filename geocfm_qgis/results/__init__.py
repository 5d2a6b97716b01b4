"""Results in QGIS: a group of styled layers per run that say where they come from."""

from .export import ExportRefused, export_geotiff
from .finished import LAYERS, OCCURRENCES, PROSPECTIVITY, SAMPLES, TARGETS, UNCERTAINTY
from .post_processing import LayerPostProcessor
from .run_layers import add_run_layers
from .styling import save_style_beside, style_result

__all__ = [
    "LAYERS",
    "OCCURRENCES",
    "PROSPECTIVITY",
    "SAMPLES",
    "TARGETS",
    "UNCERTAINTY",
    "ExportRefused",
    "LayerPostProcessor",
    "add_run_layers",
    "export_geotiff",
    "save_style_beside",
    "style_result",
]
