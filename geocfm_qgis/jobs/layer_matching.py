"""Which of the project's bands is which layer of a model: by name, whatever its spelling."""

from __future__ import annotations

import re


def match(card_layer_names, channels):
    """Give {name the model asks for: the channel of that name, or None}.

    The same letters go first, then the same but for case, spaces and punctuation. No channel is
    used twice, and of several that fit the first is taken.
    """
    left = list(channels)
    found = {}
    for same in (str, plain_name):
        for wanted in card_layer_names:
            if found.get(wanted) is None:
                fitting = (each for each in left if same(each.name) == same(wanted))
                found[wanted] = next(fitting, None)
                if found[wanted] is not None:
                    left.remove(found[wanted])
    return {name: found[name] for name in card_layer_names}


def plain_name(name):
    """Give what two spellings of a name have in common: `Dist fault` and `dist_fault`."""
    return re.sub(r"[\W_]+", "", name.casefold())
