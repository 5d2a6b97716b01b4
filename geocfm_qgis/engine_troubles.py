"""Sentences for an engine that does not start, does not fit, or ends without a word."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from .translation import tr

_WINDOWS_CODES = 0xFFFFFFFF  # an exit code beyond a byte is one of Windows, signed or not
_DLL_NOT_FOUND, _DLL_NOT_STARTED = 0xC0000135, 0xC0000142
_NO_MEMORY = (0xC0000017, 0xC000012D)
_CRASHES = (0xC0000005, 0xC0000094, 0xC00000FD, 0xC0000374, 0xC0000409)  # access violation, ...
_WRONG_PROCESSOR = 0xC000001D
_ENDED_BY_WINDOWS = (0xC000013A, 0x40010004)  # Ctrl-C, or Windows is shutting down
_NOT_FOUND_BY_SHELL = 9009  # what the stub of the Microsoft Store answers
_LONGEST_WORDS = 300  # characters of standard error that a sentence holds
_MISFITS = (  # what packages say that were compiled for another version of NumPy
    r"compiled using NumPy|compiled against (?:ABI|API)|multiarray failed|_ARRAY_API not found"
    r"|numpy\.dtype size changed"
)
_SHELL_OFFSET = 128  # a shell or container adds the number of the signal to it


@dataclass(frozen=True)
class Trouble:
    """What is wrong, and what to do."""

    message: str
    hint: str = ""


def no_engine():
    """Nothing is chosen yet."""
    return Trouble(tr("No Python is chosen yet that can run GeoCFM's engine."), _page())


def cannot_start(python, error=None):
    """The file is gone, or the system does not start it."""
    if not os.path.exists(python):  # nor what a link leads to
        return Trouble(
            tr("The Python chosen for the engine is gone: {python}.").format(python=python), _page()
        )
    if os.path.isdir(python):
        return Trouble(
            tr("{python} is a folder, not a Python program.").format(python=python), _page()
        )
    if isinstance(error, PermissionError):
        return Trouble(
            tr("The system does not allow {python} to be started.").format(python=python),
            tr(
                "Choose another Python on the GeoCFM page of QGIS's options, or ask whoever looks "
                "after this computer whether a rule or a virus scanner forbids it."
            ),
        )
    return no_python(python, str(error) if error else "")


def no_python(python, said=""):
    """Something starts, but it is no Python."""
    message = tr("{python} is not a Python that works.").format(python=python)
    return Trouble(f"{message} {said}".strip(), _page())


def other_program(python, said=""):
    """Something starts and ends, but nothing of the engine was heard from it."""
    message = tr("{python} is not a Python that can run GeoCFM's engine.").format(python=python)
    return Trouble(f"{message} {_last_line(said)}".strip(), _page())


def is_no_engine(code, last_words):
    """Tell by its end whether a program of which no event was heard is none of Python's."""
    if "Traceback (most recent call last)" in last_words or recognised(last_words):
        return False
    return 0 <= code < _SHELL_OFFSET


def store_stub(python):
    """The placeholder of Windows, which leads to the Microsoft Store."""
    return Trouble(
        tr("{python} is only a link to the Microsoft Store, not a Python.").format(python=python),
        _page(),
    )


def is_qgis(python):
    """Starting it would open a second QGIS."""
    return Trouble(tr("{python} is QGIS itself, not a Python.").format(python=python), _page())


def too_old(version, minimum):
    """The Python is older than the engine needs."""
    return Trouble(
        tr("This Python is {version}; GeoCFM's engine needs {minimum} or newer.").format(
            version=version, minimum=minimum
        ),
        _page(),
    )


def packages_missing(names):
    """The Python works, but what the engine needs is not installed in it."""
    return Trouble(
        tr("This Python lacks packages that the engine needs: {names}.").format(
            names=", ".join(names)
        ),
        tr(
            "Choose “Create one for me” on the GeoCFM page of QGIS's options, repair the "
            "environment there, or install the packages into this Python yourself."
        ),
    )


def engine_files_missing():
    """The plugin's own folder is not complete."""
    return Trouble(
        tr("The engine is missing from the folder of the plugin."), tr("Install the plugin anew.")
    )


def other_protocol():
    """The engine that answers is not the one that came with the plugin."""
    return Trouble(
        tr("The engine that answered and this plugin are of different versions."),
        tr(
            "Install the plugin anew and restart QGIS. If that does not help, choose another "
            "Python on the GeoCFM page of QGIS's options: this one may hold a GeoCFM of its own."
        ),
    )


def no_answer(seconds):
    """The engine did not answer in time."""
    return Trouble(
        tr("The engine did not answer within {seconds} seconds.").format(seconds=round(seconds)),
        tr(
            "The first start can take long while a virus scanner looks at the files: try once "
            "more. If it stays so, repair the environment on the GeoCFM page of QGIS's options."
        ),
    )


def not_ended():
    """Cancel had to be enforced."""
    return Trouble(
        tr("Stopped; the engine did not end by itself and was ended."),
        tr("Run it again, and it goes on from what it had saved."),
    )


def fell_silent():
    """The engine closed its output, but went on running."""
    return Trouble(
        tr("The engine stopped answering and was ended."),
        tr("Run it again; if it happens once more, copy the diagnostics and report it."),
    )


def ended_without_word(code, last_words=""):
    """The engine ended without saying why: its last words or its exit code tell."""
    return recognised(last_words) or _by_exit_code(code, last_words)


def recognised(text):
    """Give the trouble that a text of Python or the system's loader tells of, or None."""
    if re.search(r"No module named '?geocfm\b", text):
        return engine_files_missing()
    if re.search(r"^No Python at ", text, re.MULTILINE):  # said by an environment on Windows
        return Trouble(tr("The Python that this environment was made from is gone."), _repair())
    missing = re.search(r"No module named '?(\w+)|This Python lacks ([\w, ]+)\.", text)
    if missing:
        return packages_missing((missing[1] or missing[2]).split(", "))
    if re.search(r"DLL load failed|Error loading \S+\.dll|WinError (126|127|1114)\b", text):
        return _library_of_windows(_package_in(text))
    if re.search(r"cannot open shared object file|Library not loaded|GLIBC|undefined symbol", text):
        return Trouble(
            tr("The system could not load a library of {package}.").format(
                package=_package_in(text)
            ),
            _repair(),
        )
    if re.search(r"\b1455\b|MemoryError|bad_alloc|[Cc]annot allocate memory", text):
        return _out_of_memory()
    if re.search(_MISFITS, text):
        return Trouble(tr("The packages of this Python do not fit each other."), _repair())
    return None


def _by_exit_code(code, last_words):
    number = code & _WINDOWS_CODES if code > 0xFF or code < -0xFF else code
    if number in (_DLL_NOT_FOUND, _DLL_NOT_STARTED):
        return _library_of_windows(_package_in(last_words))
    if number in (-9, _SHELL_OFFSET + 9, *_NO_MEMORY):
        return _out_of_memory()
    if number in (-4, _SHELL_OFFSET + 4, _WRONG_PROCESSOR):
        return Trouble(
            tr("The processor of this computer does not know an instruction that PyTorch uses."),
            tr("Install an older PyTorch into the engine's Python, or use another computer."),
        )
    if number in (-1, -2, -15, _SHELL_OFFSET + 15, *_ENDED_BY_WINDOWS):
        return Trouble(
            tr("The engine was ended from outside."),
            tr("Run it again, and it goes on from what it had saved."),
        )
    if number == _NOT_FOUND_BY_SHELL:
        return Trouble(tr("The Python chosen for the engine does not work."), _page())
    if number < 0 or number in _CRASHES or number > _SHELL_OFFSET:
        shown = f"0x{number:08X}" if number > 0xFF else str(number)
        return Trouble(
            tr("The engine crashed (code {code}).").format(code=shown),
            tr(
                "Run it again: it goes on from what it had saved. If it crashes once more, set the "
                "device to “cpu”, or repair the environment on the GeoCFM page of QGIS's options."
            ),
        )
    words = _last_line(last_words)
    if words:
        message = tr("The engine ended unexpectedly (code {code}): {words}").format(
            code=number, words=words
        )
    else:
        message = tr("The engine ended without saying why (code {code}).").format(code=number)
    return Trouble(message, tr("Copy the diagnostics and report it, please."))


def _last_line(words):
    return (words.strip().splitlines() or [""])[-1].strip()[:_LONGEST_WORDS]


def _out_of_memory():
    return Trouble(
        tr("The system ended the engine, most probably because the memory was not enough."),
        tr(
            "Close other programs, or choose a smaller window, larger cells or a smaller area; "
            "then run it again."
        ),
    )


def _library_of_windows(package):
    return Trouble(
        tr("Windows could not load a library of {package}.").format(package=package),
        tr(
            "Install the “Microsoft Visual C++ Redistributable” (x64) from Microsoft, restart the "
            "computer and try again. If that does not help, repair the environment on the GeoCFM "
            "page of QGIS's options."
        ),
    )


def _package_in(text):
    """The package that the engine names, or whose files a traceback names last."""
    found = re.findall(r"[Tt]he package (\w+) is there|(?:site|dist)-packages[\\/]+(\w+)", text)
    return "".join(found[-1]) if found else tr("the engine's Python")


def _page():
    return tr("Choose or create one on the GeoCFM page of QGIS's options (Settings, Options).")


def _repair():
    return tr("Repair the environment on the GeoCFM page of QGIS's options, or create a new one.")
