"""Texts of the pages: loading the locale files and choosing a visitor's language.

Belongs here: which languages this build speaks, reading ``locales/<namespace>.<lang>.json``, choice by
``Accept-Language``, filling in values. Not here: plural forms, which the page chooses with ``Intl`` (a key may have
a sibling ``<key>_one``); rendering.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

LANGUAGES: Final = ("en", "th", "ja", "zh-Hans", "ko")
"""Languages of everything that a visitor may see, the fallback first (PAG-142)."""
FALLBACK: Final = LANGUAGES[0]
LOCALES_DIR: Final = Path(__file__).resolve().parents[2] / "locales"

_BY_PRIMARY: Final = {lang.partition("-")[0]: lang for lang in LANGUAGES}
"""Every language that begins with ``zh`` means ``zh-Hans``."""
_PLACE: Final = re.compile(r"{(\w+)}")
_RANGE: Final = re.compile(r"\s*([A-Za-z]{1,8})(?:-[A-Za-z0-9-]{1,32})?\s*(?:;\s*q=([01](?:\.\d{0,3})?))?\s*")


def load_locale(namespace: str, lang: str, *, folder: Path = LOCALES_DIR) -> dict[str, str]:
    """Read one locale file: key to text. Raises OSError or ValueError if it is missing or no object of texts."""
    texts = json.loads((folder / f"{namespace}.{lang}.json").read_text(encoding="utf-8"))
    if not isinstance(texts, dict) or not all(isinstance(text, str) for text in texts.values()):
        raise ValueError(f"locales/{namespace}.{lang}.json is not an object of texts")
    return texts


def base_keys(texts: Mapping[str, str]) -> set[str]:
    """Keys without their plural siblings: what every language has to have."""
    return {key.partition("_")[0] for key in texts}


def choose_language(accept_language: str) -> str:
    """Best language of this build for an ``Accept-Language`` value (RFC 9110, 12.5.4); the fallback if none fits.

    Unreadable parts count as absent; ``*`` means the fallback.
    """
    best, best_weight = FALLBACK, 0.0
    for part in accept_language[:1024].split(","):
        match = _RANGE.fullmatch(part)
        lang = _BY_PRIMARY.get(match[1].lower()) if match else None
        if match is None or lang is None:
            continue
        weight = float(match[2] or 1)
        if weight > best_weight:
            best, best_weight = lang, weight
    return best


def fill(text: str, **values: object) -> str:
    """Put ``values`` into the ``{names}`` of a text."""
    return _PLACE.sub(lambda match: str(values[match[1]]), text)
