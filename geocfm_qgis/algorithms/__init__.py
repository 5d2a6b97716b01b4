"""GeoCFM in Processing: the same jobs for toolbox, batches, models, qgis_process and panel."""

from qgis.core import QgsProcessingException

from ..translation import tr
from .check_data import CheckData
from .evaluate_model import EvaluateModel
from .prospectivity_map import ProspectivityMap
from .rank_targets import RankTargets
from .run_job_file import RunJobFile
from .sample_occurrences import SampleOccurrences
from .train_model import TrainModel

PREFIX = "geocfm:"


def algorithm_classes():
    """Give the algorithms in the order of a geologist's work."""
    return (
        *(CheckData, TrainModel, SampleOccurrences, ProspectivityMap, RankTargets),
        *(EvaluateModel, RunJobFile),
    )


def engine_job(algorithm_id, parameters, context, name=""):
    """Give the EngineJob of an algorithm with these parameters; works where the layers live.

    The id may begin with "geocfm:". OUTPUT is a path. Raises QgsProcessingException.
    """
    own = algorithm_id[len(PREFIX) :] if algorithm_id.startswith(PREFIX) else algorithm_id
    for kind in algorithm_classes():
        if kind.algorithm_id == own:
            algorithm = kind()
            algorithm.initAlgorithm({})
            writes = algorithm.command != "check"
            out = parameters.get("OUTPUT") or "" if writes else ""
            return algorithm.engine_job(parameters, context, str(out), name)
    raise QgsProcessingException(tr("GeoCFM has no algorithm '{name}'.").format(name=algorithm_id))
