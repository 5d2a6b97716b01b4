"""The whole run in one line."""

from __future__ import annotations

from ..translation import tr
from .card_text import model_name
from .products import product


def summary_sentence(choices, occurrence_count, grid=None):
    """Say what will happen; `grid` is (rows, columns) of the map. Both numbers may be unknown."""
    made = [
        product(choice.key).summary.format(region=_region(grid), **choice.options)
        for choice in choices.results.products
    ]
    if not choices.model.train:
        name = model_name(choices.model.checkpoint)
        return tr("With the model {name}: {products}.").format(name=name, products=_listed(made))
    start = tr("{budget} on {layers} and {occurrences}").format(
        budget=_budget(choices.model) + _networks(choices.model),
        layers=_counted(len(choices.layers.channels), tr("1 layer"), tr("{count} layers")),
        occurrences=_occurrences(occurrence_count),
    )
    if not made:
        return f"{start}."
    return tr("{start}, then {products}.").format(start=start, products=_listed(made))


def whole_grid(choices, project):
    """Give (rows, columns) of the map where its grid is simply that of a layer, else None."""
    chosen = choices.layers
    if not choices.model.train or not chosen.channels:
        return None
    if chosen.extent or chosen.area_layer or choices.model.resolution:
        return None
    layer = project.mapLayer(chosen.reference or chosen.channels[0].layer)
    return (layer.height(), layer.width()) if layer is not None else None


def _budget(model):
    """Say how long it trains; where both bounds are given, the first that is reached counts."""
    if not model.minutes and not model.iterations:
        return tr("Train as long as the preset says")
    minutes = _counted(f"{model.minutes:g}", tr("1 minute"), tr("{count} minutes"))
    if not model.iterations:
        return tr("Train for {time}").format(time=minutes)
    steps = _counted(model.iterations, tr("1 iteration"), tr("{count} iterations"))
    if not model.minutes:
        return tr("Train for at most {iterations}").format(iterations=steps)
    return tr("Train for at most {iterations} or {time}").format(iterations=steps, time=minutes)


def _networks(model):
    """Say in brackets what shares the time, if anything does."""
    parts = []
    if model.ensemble > 1:
        parts.append(tr("{count} networks").format(count=model.ensemble))
    if model.folds:
        parts.append(tr("{count} folds").format(count=model.folds))
    return f" ({', '.join(parts)})" if parts else ""


def _occurrences(count):
    if count is None:
        return tr("the occurrences")
    return _counted(count, tr("1 occurrence"), tr("{count} occurrences"))


def _region(grid):
    if grid is None:
        return tr("the region")
    return tr("{rows} x {columns} cells").format(rows=grid[0], columns=grid[1])


def _counted(count, one, many):
    return one if str(count) == "1" else many.format(count=count)


def _listed(texts):
    """Give a, b and c."""
    if len(texts) < 2:
        return "".join(texts)
    return tr("{first} and {last}").format(first=", ".join(texts[:-1]), last=texts[-1])
