"""The plan in words: what is installed, where, how large, and what happens step by step."""

from __future__ import annotations

import html

from ..translation import tr
from .place import ABSENT, BROKEN, FINISHED, FOREIGN, HALF_MADE, OUTDATED
from .plan import CPU, CUDA, SIZES, as_size

LETTERS_ON_BUTTON = 36


def plan_html(plan, state):
    """Give what will happen, as rich text; problems first."""
    parts = [f"<b>{html.escape(problem)}</b>" for problem in plan.problems()]
    if state in (ABSENT, FOREIGN, HALF_MADE, BROKEN):
        if state == HALF_MADE:
            parts.append(html.escape(tr("An earlier installation did not come to its end.")))
        parts.append(_place_and_size(plan))
        parts.append(_steps_html(plan))
        if plan.build == CPU and plan.torch_index() and not plan.wheels_folder:
            said = tr(
                "Should PyTorch's own index not answer, the ordinary one is used. Its PyTorch for "
                "Linux includes NVIDIA's libraries and takes up to {size}."
            )
            size = as_size(SIZES[CUDA].installed_bytes)
            parts.append(html.escape(said.format(size=size)))
    elif state == OUTDATED:
        said = tr("Update installs what this version of the plugin needs, up to {size}.")
        size = as_size(plan.size.download_bytes)
        parts.append(html.escape(said.format(size=size)))
    else:
        parts.append(
            html.escape(
                tr("Repair installs again what is missing, or all of it if it does not start.")
            )
        )
    return "".join(part if part.startswith("<ol") else f"<p>{part}</p>" for part in parts)


def button_text(plan, state):
    """Give the text of the button that is the consent: what, how large, and where."""
    folder = _shortened(str(plan.folder))
    size = as_size(plan.size.installed_bytes)
    if state == HALF_MADE:
        return tr("Go on installing {size} into {folder}").format(size=size, folder=folder)
    if state == OUTDATED:
        return tr("Update")
    if state == FINISHED:
        return tr("Repair")
    return tr("Install {size} into {folder}").format(size=size, folder=folder)


def build_label(build):
    """Give a build of PyTorch as the user is shown it."""
    size = as_size(SIZES[build].installed_bytes)
    if build == CPU:
        return tr("CPU, about {size}").format(size=size)
    if build == CUDA:
        return tr("NVIDIA graphics card (CUDA) and CPU, about {size}").format(size=size)
    return tr("Apple graphics processor and CPU, about {size}").format(size=size)


def _place_and_size(plan):
    free = plan.place.free_bytes()
    said = tr(
        "Installed in <b>{folder}</b>: about <b>{installed}</b> on the disk, {download} to "
        "download. {free}"
    )
    if plan.wheels_folder:
        said = tr("Installed in <b>{folder}</b>: about <b>{installed}</b> on the disk. {free}")
    return said.format(
        folder=html.escape(str(plan.folder)),
        installed=html.escape(as_size(plan.size.installed_bytes)),
        download=html.escape(as_size(plan.size.download_bytes)),
        free="" if free is None else tr("{size} are free there.").format(size=as_size(free)),
    )


def _steps_html(plan):
    sentences = [_step_sentence(plan, step) for step in plan.steps()]
    sentences.append(tr("Start the engine and ask it for its devices."))
    items = "".join(f"<li>{html.escape(sentence)}</li>" for sentence in sentences)
    return f"<ol style='margin-top: 0'>{items}</ol>"


def _step_sentence(plan, step):
    """Give the title of a step with where it takes its things from."""
    command = step.command
    if "venv" in command:
        source = plan.base_python or tr("the standalone Python")
        return tr("{title}, from {source}.").format(title=step.title, source=source)
    if "--index-url" in command:
        index = command[command.index("--index-url") + 1]
        return tr("{title}, from {source}.").format(title=step.title, source=index)
    if plan.wheels_folder and "pip" in command:
        return tr("{title}, from {source}.").format(title=step.title, source=plan.wheels_folder)
    return tr("{title}.").format(title=step.title)


def _shortened(path):
    """Give the end of a long path."""
    if len(path) <= LETTERS_ON_BUTTON:
        return path
    return "…" + path[-LETTERS_ON_BUTTON:]
