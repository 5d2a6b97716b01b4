"""The temporary inputs of a run, kept in its folder so that the run can be done again later."""

from __future__ import annotations

import filecmp
import os
import shutil
from dataclasses import replace

from ..jobs.job_paths import with_paths

FOLDER = "inputs"  # within that of the run
LARGEST = 50_000_000  # bytes; QGIS waits while they are copied


def keep_inputs(run):
    """Give the run's jobs with kept files in place of temporary ones, and what is not kept."""
    kept, lost = {}, []
    for path in dict.fromkeys(path for job in run.jobs for path in job.temporary):
        copy = "" if run.temporary else _copied(path, run.folder)
        if copy:
            kept[path] = copy
        else:
            lost.append(path)

    def place(path):
        return kept.get(path, path)

    return tuple(replace(job, values=with_paths(job.values, place)) for job in run.jobs), lost


def _copied(path, run_folder):
    """Copy a file; give its new place, or an empty text if it is too large or cannot be."""
    stem, suffix = os.path.splitext(os.path.basename(path))
    folder = os.path.join(run_folder, FOLDER)
    target, number = os.path.join(folder, stem + suffix), 2
    try:
        if not os.path.isdir(run_folder) or os.path.getsize(path) > LARGEST:
            return ""
        os.makedirs(folder, exist_ok=True)
        while os.path.exists(target):
            if filecmp.cmp(path, target, shallow=False):
                return target
            target, number = os.path.join(folder, f"{stem}_{number}{suffix}"), number + 1
        return shutil.copyfile(path, target)
    except OSError:
        return ""
