"""How many points will be used, and what becomes of the others; counted as the engine counts."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PointCount:
    """read is the sum of the other six; each point is counted where it is lost first."""

    read: int = 0
    not_selected: int = 0
    without_location: int = 0
    filtered_out: int = 0
    outside: int = 0
    sharing_a_cell: int = 0
    used: int = 0


def count_points(table, cells, selected=None, wanted=None, one_per_cell=False):
    """Count the points of a PointTable.

    cells: of each point its cell, None if outside; or None while there is no grid. selected: ids
    of features, None for all. wanted: folded values, None for all.
    """
    points = table.points_of_features()
    losses = [0] * len(table.ids)  # by feature: 0 kept, 1 not selected, 2 filtered out
    not_selected = without_location = filtered_out = outside = sharing = used = 0
    for number, (feature_id, values) in enumerate(zip(table.ids, table.values)):
        if selected is not None and feature_id not in selected:
            losses[number] = 1
            not_selected += points[number] or 1
        elif not points[number]:
            without_location += 1
        elif wanted is not None and wanted.isdisjoint(values):
            losses[number] = 2
            filtered_out += points[number]
    taken = set()
    for number, owner in enumerate(table.owners):
        if losses[owner]:
            continue
        cell = cells[number] if cells is not None else None
        if cells is not None and cell is None:
            outside += 1
        elif one_per_cell and cell in taken:
            sharing += 1
        else:
            used += 1
            if cell is not None:
                taken.add(cell)
    read = not_selected + without_location + filtered_out + outside + sharing + used
    return PointCount(read, not_selected, without_location, filtered_out, outside, sharing, used)
