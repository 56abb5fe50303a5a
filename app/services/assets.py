"""Files of the pages: modules joined into one script, hashed, compressed once, served from memory.

Belongs here: reading ``static/`` and ``locales/``, joining, hashing, the map from served name to bytes. Not here: HTTP
(blueprints/visitor/assets.py), the document itself (waiting_page.py).

Joining is no bundling: the modules of a page are concatenated in listed order inside one function, without their
``import`` lines and ``export`` words, full-line comments and blanks that mean nothing (which is worth 0.4 KB of the
page's 14). That needs habits of the sources, which the joiner or the tests check: imports stand on one line each,
top-level names are unique over the modules of a page, statements end with a semicolon, no literal runs over a line
end, a comment has its line to itself, and an operator is never followed by a sign of its own kind (``a - -b``).
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.i18n import FALLBACK, LANGUAGES, LOCALES_DIR, load_locale

STATIC_DIR: Final = Path(__file__).resolve().parents[2] / "static"

WAITING_STYLES: Final = ("shared/fonts.css", "waiting/tokens.css", "waiting/waiting.css", "waiting/states.css")
WAITING_MODULES: Final = (
    "shared/text.js",
    "shared/stream.js",
    "waiting/estimate.js",
    "waiting/storage.js",
    "waiting/state.js",
    "waiting/notify.js",
    "waiting/mail.js",
    "waiting/describe.js",
    "waiting/view.js",
    "waiting/main.js",
)
"""Modules of the waiting page, each after those that it imports."""

FONTS: Final = ("geist-latin.woff2", "geist-latin-ext.woff2", "geist-mono-latin.woff2", "geist-mono-latin-ext.woff2")

_HASH_LENGTH: Final = 22
_BLOCK_COMMENT: Final = re.compile(r"^[ \t]*/\*.*?\*/[ \t]*\n?", re.MULTILINE | re.DOTALL)
_BLANKS: Final = re.compile(
    r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\\n]|\\.)*`"""
    r"""|(?:(?<=[(,=!&|:?])|(?<=[(,=!&|:?] ))/(?![ /*])(?:[^/\\\n]|\\.)+/)"""
    r"""|[ ]*([{}()\[\],;:?=<>+*/&|!-])[ ]*"""
)
"""A literal, which stays as it is, or one sign with the blanks around it."""
_SELF_RELOAD: Final = '<noscript><meta http-equiv="refresh" content="60"></noscript>\n'
_LINE_ENDS: Final = re.compile(r"(?<=[{(\[,;:?=>&|+])\n")
"""Line ends that cannot end a statement."""
_DECLARED: Final = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asset:
    """One served file. ``gzipped`` is None where compression gains nothing (fonts)."""

    name: str
    """Name in its folder, with the hash where it has one: ``waiting-<hash>.css``."""
    media_type: str
    body: bytes
    gzipped: bytes | None = None


@dataclass(frozen=True, slots=True)
class WholePage:
    """A page in one file, complete in itself."""

    file: Asset
    etag: str
    csp: str
    """Allows its own inline style and script and no request at all."""

    @classmethod
    def read(cls, path: Path, *, form: bool = False) -> WholePage:
        """The page in ``path``, which has one ``<style>`` and one ``<script>``; ``form``: shown in answer to a form."""
        text = path.read_text(encoding="utf-8")
        if form:
            text = text.replace('<html lang="en">', '<html lang="en" data-form>', 1).replace(_SELF_RELOAD, "", 1)
        body = text.encode("utf-8")
        style, script = (_inline_digest(text, tag) for tag in ("style", "script"))
        csp = (
            f"default-src 'none'; script-src {script}; style-src {style}; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        asset = Asset(path.name, "text/html; charset=utf-8", body, compress(body))
        return cls(asset, f'W/"{content_hash(body)}"', csp)


def _inline_digest(text: str, tag: str) -> str:
    """What a Content-Security-Policy names the one ``tag`` of a page by."""
    inside = text.partition(f"<{tag}>")[2].partition(f"</{tag}>")[0]
    digest = hashlib.sha256(inside.encode("utf-8")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"


def content_hash(body: bytes) -> str:
    """First 22 characters of the base64url SHA-256 of a file (VIS-105, PAG-164)."""
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode("ascii")[:_HASH_LENGTH]


def compress(body: bytes) -> bytes:
    """Gzip without a time stamp, so that every instance of a build makes the same bytes (PAG-169)."""
    return gzip.compress(body, 9, mtime=0)


def bare_lines(source: str, *, end: str = "\n") -> str:
    """``source`` without full-line comments, blank lines and indentation; ``end`` is put between its lines."""
    lines = (line.strip() for line in _BLOCK_COMMENT.sub("", source).splitlines())
    return end.join(line for line in lines if line and not line.startswith("//"))


def squeeze(script: str) -> str:
    """A script without the blanks and line ends that mean nothing; literals are left alone."""
    return _LINE_ENDS.sub("", _BLANKS.sub(lambda match: match[1] or match[2], script))


def join_modules(sources: Iterable[str], *, prelude: str = "") -> str:
    """Join ES modules into one classic script. Raises ``ValueError`` if two of them declare the same top-level name."""
    declared: set[str] = set()
    parts = []
    for source in sources:
        names = _DECLARED.findall(source)
        twice = declared.intersection(names)
        if twice:
            raise ValueError(f"declared by two modules of one page: {', '.join(sorted(twice))}")
        declared.update(names)
        lines = (line for line in bare_lines(source).splitlines() if not line.startswith("import "))
        parts.append("\n".join(line.removeprefix("export ") for line in lines))
    return "(()=>{'use strict';\n" + prelude + squeeze("\n".join(parts)) + "\n})();\n"


class Assets:
    """The page files of this build, read and compressed once at start."""

    def __init__(self, *, static_dir: Path = STATIC_DIR, locales_dir: Path = LOCALES_DIR) -> None:
        self._static = static_dir
        self._locales = locales_dir
        self._files: dict[str, Asset] = {}
        self.fonts: dict[str, Asset] = self._read_fonts()
        self.css = self._add("waiting", "css", "text/css; charset=utf-8", self._style())
        self.js = self._add("waiting", "js", "text/javascript; charset=utf-8", self._script())
        self.icon = self._add("waiting", "svg", "image/svg+xml", self.source("waiting/icon.svg"))
        self.icon_turn = self._add("waiting", "svg", "image/svg+xml", self.source("waiting/icon-turn.svg"))
        self.languages = {
            lang: self._add("waiting", f"{lang}.json", "application/json; charset=utf-8", self._texts(lang))
            for lang in LANGUAGES
            if lang != FALLBACK
        }
        """URL of each language that is not in the script."""
        self.offline = WholePage.read(static_dir / "waiting/offline.html")
        """What a CDN shows when no instance answers (VIS-109, PAG-170)."""
        origin_down = static_dir / "waiting/origin-down.html"
        self.origin_down = WholePage.read(origin_down), WholePage.read(origin_down, form=True)
        """What the inline proxy shows when the site does not answer; the second one after a form (PAG-176)."""

    def get(self, name: str) -> Asset | None:
        """File served as ``/assets/<name>``, or None: not of this build."""
        return self._files.get(name)

    def bodies(self) -> dict[str, bytes]:
        """Every hashed file of this build by its name."""
        return {name: asset.body for name, asset in self._files.items()}

    def source(self, path: str) -> str:
        """Text of a file under ``static/``."""
        return (self._static / path).read_text(encoding="utf-8")

    def guard(self) -> str:
        """The inline script of the document, ready to be put between its tags."""
        return squeeze(bare_lines(self.source("waiting/guard.js")))

    def _add(self, page: str, suffix: str, media_type: str, text: str) -> str:
        body = text.encode("utf-8")
        asset = Asset(f"{page}-{content_hash(body)}.{suffix}", media_type, body, compress(body))
        self._files[asset.name] = asset
        return f"/assets/{asset.name}"

    def _style(self) -> str:
        return "".join(bare_lines(self.source(path), end="") for path in WAITING_STYLES)

    def _script(self) -> str:
        prelude = f"const EN={self._texts(FALLBACK)};"
        return join_modules((self.source(path) for path in WAITING_MODULES), prelude=prelude)

    def _texts(self, lang: str) -> str:
        texts = load_locale("waiting", lang, folder=self._locales)
        return json.dumps(texts, ensure_ascii=False, separators=(",", ":"))

    def _read_fonts(self) -> dict[str, Asset]:
        folder = self._static / "fonts"
        fonts = {name: Asset(name, "font/woff2", (folder / name).read_bytes()) for name in FONTS}
        licence = (folder / "LICENSE.txt").read_bytes()
        fonts["LICENSE.txt"] = Asset("LICENSE.txt", "text/plain; charset=utf-8", licence)
        return fonts
