"""From what is chosen to what is run: algorithms with parameters, and their jobs as one Run."""

from __future__ import annotations

from dataclasses import dataclass, replace

from qgis.core import QgsProcessingContext, QgsProcessingFeatureSourceDefinition

from .. import algorithms
from ..jobs.channels import NamedBand, clean_name, format_channels
from ..runs import Run
from ..translation import tr
from . import result_files
from .choices import OccurrenceChoices
from .commodity_filter import where_text
from .products import EVALUATION, PROSPECTIVITY, UNCERTAINTY, all_products, product
from .shared_inputs import share_inputs


@dataclass(frozen=True)
class PlannedStep:
    """One algorithm of the provider with the parameters it takes, and how the user knows it."""

    algorithm: str
    parameters: dict
    title: str


def steps(choices):
    """Give what is to be done, in order: training if asked for, then each product."""
    planned = []
    results = choices.results
    if choices.model.train:
        parameters = {
            **learning_parameters(choices),
            **_training_budget(choices.model),
            **_manner(choices),
            "GROUND": choices.model.ground,
            "POSITIVE_ONLY": choices.model.positive_only,
            "SKIP_REPORT": any(each.key == EVALUATION for each in results.products),
            "OUTPUT": result_files.model_path(results),
        }
        planned.append(PlannedStep("train", parameters, tr("Model")))
        model = result_files.model_path(results)
    else:
        model = choices.model.checkpoint
    paths = {each.key: result_files.product_path(results, each) for each in results.products}
    for wanted in results.products:
        made = product(wanted.key)
        if made.part_of:
            continue
        parameters = {
            **_applying(choices, model),
            **(_from_map(paths) if made.needs else _manner(choices)),
            **{option.parameter: wanted.options[option.key] for option in made.options},
            **_along_with(made, paths),
            "OVERWRITE": results.overwrite,
            "OUTPUT": paths[wanted.key],
        }
        if made.needs_occurrences or (made.knows_occurrences and choices.occurrences.layer):
            known = _occurrences(choices.occurrences)
            if not made.needs_occurrences:
                known.pop("DEDUPLICATE")  # for distances it is all the same
            parameters.update(known)
        if made.takes_area:
            parameters.update(_area(choices.layers))
        planned.append(PlannedStep(made.algorithm, parameters, made.title))
    return planned


def _applying(choices, model):
    """What applies a model to its layers."""
    return {"CHECKPOINT": model, **_rasters(_channels(choices))}


def _from_map(paths):
    """What is made from the map of the same run, and its uncertainty if that is made too."""
    return _without_none({"MAP": paths[PROSPECTIVITY], "UNCERTAINTY": paths.get(UNCERTAINTY)})


def _along_with(made, paths):
    """The files that the product's algorithm writes along with it, by its parameters."""
    parts = (each for each in all_products() if each.part_of and each.needs == made.key)
    return {each.key.upper(): paths[each.key] for each in parts if each.key in paths}


def learning_parameters(choices):
    """Give what training and the check of its data have in common."""
    classes = [clean_name(each.name) for each in choices.layers.channels if each.categorical]
    model = choices.model
    return _without_none(
        {
            **_rasters(choices.layers.channels),
            "CLASSES": ", ".join(classes) or None,
            **_area(choices.layers),
            **_occurrences(choices.occurrences),
            "RESOLUTION": model.resolution,
            "PRESET": model.preset,
            "WINDOW": model.window,
            "TILE": model.tile,
            "SETTINGS": ", ".join(model.settings) or None,
            "EFFORT": model.effort or None,
        }
    )


def make_run(choices, project):
    """Give the Run; raises QgsProcessingException with a sentence. Reads layers: main thread."""
    context = QgsProcessingContext()
    context.setProject(project)
    jobs = share_inputs(
        algorithms.engine_job(step.algorithm, step.parameters, context, step.title)
        for step in steps(_without_gone_points(choices, project))
    )
    return Run(
        name=choices.results.name,
        jobs=jobs,
        folder=result_files.run_folder(choices.results),
        choices=choices.to_dict(),
        temporary=not choices.results.folder,
    )


def _without_gone_points(choices, project):
    """A model that is there needs no occurrences: a layer of them that is gone is passed over."""
    is_there = project.mapLayer(choices.occurrences.layer) is not None
    if is_there or choices.model.train:
        return choices
    return replace(choices, occurrences=OccurrenceChoices())


def make_check(choices, project):
    """Give the job that looks at the data a model would learn from."""
    context = QgsProcessingContext()
    context.setProject(project)
    return algorithms.engine_job("checkdata", learning_parameters(choices), context, tr("Check"))


def _channels(choices):
    return choices.layers.channels if choices.model.train else choices.model.matches


def _rasters(channels):
    layers = list(dict.fromkeys(channel.layer for channel in channels))
    bands = [
        NamedBand(clean_name(each.name), layers.index(each.layer) + 1, each.band)
        for each in channels
    ]
    return {"RASTERS": layers, "CHANNELS": format_channels(bands)}


def _area(layers):
    return _without_none(
        {
            "REFERENCE": layers.reference or None,
            "EXTENT": layers.extent or None,
            "AREA": layers.area_layer or None,
        }
    )


def _occurrences(chosen):
    source = chosen.layer
    if chosen.selected_only:
        source = QgsProcessingFeatureSourceDefinition(chosen.layer, True)
    return _without_none(
        {
            "OCCURRENCES": source,
            "WHERE": where_text(chosen) or None,
            "DEDUPLICATE": chosen.deduplicate,
        }
    )


def _training_budget(model):
    return _without_none(
        {
            "MINUTES": model.minutes or None,
            "ITERATIONS": model.iterations,
            "ENSEMBLE": model.ensemble,
            "FOLDS": model.folds,
        }
    )


def _manner(choices):
    return {
        "SEED": choices.model.seed,
        "DEVICE": choices.model.device,
        "OVERWRITE": choices.results.overwrite,
    }


def _without_none(parameters):
    return {name: value for name, value in parameters.items() if value is not None}
