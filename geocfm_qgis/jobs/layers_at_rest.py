"""A while in which no layer changes: what was read of one need not be read again."""

from __future__ import annotations

from contextlib import contextmanager

_found = None  # what was found out, while it lasts


@contextmanager
def layers_at_rest():
    """Promise that no layer changes inside the `with`: no event of QGIS is handled there."""
    global _found
    outer = _found
    _found = {} if outer is None else outer
    try:
        yield
    finally:
        _found = outer


def found_once(key, find):
    """Give find(), or what it gave before for the same key while the layers are at rest."""
    if _found is None:
        return find()
    if key not in _found:
        _found[key] = find()
    return _found[key]
