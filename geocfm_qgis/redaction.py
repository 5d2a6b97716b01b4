"""What of a text concerns only the user: home folder, name and passwords are taken out."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from urllib.parse import quote

HOME, USER, REMOVED = "~", "<user>", "<removed>"
SHORTEST_NAME = 2  # letters; one alone would be found everywhere
NOBODY = {  # names of accounts that tell nothing of a person, and may stand in any log
    *("root", "user", "users", "admin", "administrator", "qgis", "python", "geocfm", "home"),
    *("ubuntu", "debian", "docker", "runner", "test", "default", "public", "guest", "system"),
}

_VALUE = r"""(\\"[^"\\]*\\"|'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|(?:(?!%26)[^\s,;&|'"])+)"""
_NAMES = (
    r"pass(?:word|wd|phrase)?|pwd|token|secret(?:_access_key|_key)?|api_?key|access_?key(?:_id)?|"
    r"authcfg"
)
_CREDENTIALS = (
    (re.compile(r"(://)[^\s/\"'<>]+@"), rf"\1{REMOVED}@"),
    (re.compile(r"(?i)(%3A%2F%2F)(?:(?!%2F)[^\s&\"'<>/])+?(?=%40)"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)\b((?:oci|geor|georaster):)[^\s@\"'<>]+@"), rf"\1{REMOVED}@"),
    (re.compile(r"(?<![\w/])[^\s/:@=\"'<>]+:[^\s/@\"'<>]+@(?=[\w.-]+:\d+)"), f"{REMOVED}@"),
    (re.compile(r"(\|credential:[^=|]*=)[^|\"'\s]*"), rf"\1{REMOVED}"),
    (
        re.compile(rf"(?i)\b([\w-]*(?:{_NAMES})\\?[\"']?\s*(?:[=:]|%3D)\s*){_VALUE}"),
        rf"\1{REMOVED}",
    ),
    (re.compile(rf"(?i)\b((?:user(?:name)?|uid)(?:=|%3D)){_VALUE}"), rf"\1{REMOVED}"),
    (re.compile(r"(?i)\b(authorization\\?[\"']?\s*[=:]\s*[\"']?\w+ )[^\s\"']+"), rf"\1{REMOVED}"),
    (  # of an address: the key to a service, or the signature that stands for one
        re.compile(
            rf"(?i)((?:[?&]|%3F|%26)(?:key|sig|x-amz-[\w-]+|x-goog-[\w-]+)(?:=|%3D)){_VALUE}"
        ),
        rf"\1{REMOVED}",
    ),
)
_ANY_HOME = (
    re.compile(
        r"(?i)\b[a-z]:[\\/]+(?:users|documents and settings)[\\/]+"
        r"(?:[^\\/:*?\"'<>|\r\n]{1,40}(?=[\\/])|[^\s\\/:*?\"'<>|]+)"
    ),
    re.compile(r"(?<![\w.~])/(?:home|Users)/[^\s/:\"'<>|]+"),
)


def without_credentials(text):
    """Give a text, or the source of a layer, without the names and keys that open its database."""
    for pattern, words in _CREDENTIALS:
        text = pattern.sub(words, text)
    return text


def has_credentials(text):
    """Whether a text holds what others must not read."""
    return without_credentials(text) != text


def without_credentials_within(content):
    """Give what JSON can hold without the credentials in its texts."""
    if isinstance(content, str):
        return without_credentials(content)
    if isinstance(content, dict):
        return {key: without_credentials_within(each) for key, each in content.items()}
    if isinstance(content, (list, tuple)):
        return [without_credentials_within(each) for each in content]
    return content


def redacted(text):
    """Give the text without passwords, home folders and the user's name, however they are spelt."""
    text = without_credentials(text)
    for folder in sorted(_homes(), key=len, reverse=True):
        for spelling in _spellings(folder):
            text = re.sub(rf"{re.escape(spelling)}(?!\w|[-.]\w)", HOME, text, flags=re.IGNORECASE)
    for pattern in _ANY_HOME:
        text = pattern.sub(HOME, text)
    for name in sorted(_names(), key=len, reverse=True):
        for spelling in _spellings(name):
            whole = rf"(?<![^\W_]){re.escape(spelling)}(?![^\W_])"
            text = re.sub(whole, USER, text, flags=re.IGNORECASE)
    return text


def _homes():
    found = {os.path.expanduser("~"), os.environ.get("HOME"), os.environ.get("USERPROFILE")}
    found |= {os.path.realpath(folder) for folder in found if folder}
    return {folder.rstrip("\\/") for folder in found if folder and folder.strip("\\/.~")}


def _names():
    found = {os.environ.get(name, "") for name in ("USER", "USERNAME", "LOGNAME")}
    found |= {re.split(r"[\\/]", folder)[-1] for folder in _homes()}
    return {name for name in found if len(name) >= SHORTEST_NAME and name.lower() not in NOBODY}


def _spellings(text):
    """The ways a path or name is written: slashes, escapes of JSON and addresses, accents."""
    forms = {unicodedata.normalize(form, text) for form in ("NFC", "NFD")}
    forms |= {form.replace("\\", "/") for form in forms}
    forms |= {form.replace("/", "\\") for form in forms}
    forms |= {form.replace("\\", "\\\\") for form in forms}
    forms |= {json.dumps(form)[1:-1] for form in forms}
    forms |= {quote(form, safe=safe) for form in forms for safe in ("/", "/:", "")}
    return sorted(forms, key=len, reverse=True)
