"""From QGIS's layers to the engine's jobs: everything a job names is a file the engine can open."""

from .command_line import as_command_line, as_job_file, save_for_server
from .engine_job import EngineJob, in_layer_names, run_arguments, write_job_file

__all__ = [
    "EngineJob",
    "as_command_line",
    "as_job_file",
    "in_layer_names",
    "run_arguments",
    "save_for_server",
    "write_job_file",
]
