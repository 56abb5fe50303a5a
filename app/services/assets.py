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

import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from app.core.i18n import FALLBACK, LANGUAGES, LOCALES_DIR, load_locale
from app.services.asset_file import Asset, compress, content_hash
from app.services.outage_pages import OutagePages

STATIC_DIR: Final = Path(__file__).resolve().parents[2] / "static"

WAITING_STYLES: Final = ("shared/fonts.css", "waiting/tokens.css", "waiting/waiting.css", "waiting/states.css")
DOCS_STYLES: Final = ("shared/fonts.css", "waiting/tokens.css", "docs/docs.css")
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

_BLOCK_COMMENT: Final = re.compile(r"^[ \t]*/\*.*?\*/[ \t]*\n?", re.MULTILINE | re.DOTALL)
_BLANKS: Final = re.compile(
    r"""('(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*"|`(?:[^`\\\n]|\\.)*`"""
    r"""|(?:(?<=[(,=!&|:?])|(?<=[(,=!&|:?] ))/(?![ /*])(?:[^/\\\n]|\\.)+/)"""
    r"""|[ ]*([{}()\[\],;:?=<>+*/&|!-])[ ]*"""
)
"""A literal, which stays as it is, or one sign with the blanks around it."""
_LINE_ENDS: Final = re.compile(r"(?<=[{(\[,;:?=>&|+])\n")
"""Line ends that cannot end a statement."""
_DARK: Final = re.compile(r"\[data-theme=dark\](\{[^}]*\})")
_DECLARED: Final = re.compile(r"^(?:export )?(?:async )?(?:const|let|function|class) (\w+)", re.MULTILINE)


def bare_lines(source: str, *, end: str = "\n") -> str:
    """``source`` without full-line comments, blank lines and indentation; ``end`` is put between its lines."""
    lines = (line.strip() for line in _BLOCK_COMMENT.sub("", source).splitlines())
    return end.join(line for line in lines if line and not line.startswith("//"))


def by_system_scheme(style: str) -> str:
    """``style`` whose dark colours hold by the system's scheme, for pages without a script that chooses one."""
    return _DARK.sub(r"@media(prefers-color-scheme:dark){:root\1}", style)


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
        self.docs_css = self._add("docs", "css", "text/css; charset=utf-8", self._docs_style())
        self.docs_js = self._add(
            "docs", "js", "text/javascript; charset=utf-8", bare_lines(self.source("docs/docs.js"))
        )
        self.icon = self._add("waiting", "svg", "image/svg+xml", self.source("waiting/icon.svg"))
        self.icon_turn = self._add("waiting", "svg", "image/svg+xml", self.source("waiting/icon-turn.svg"))
        self.languages = {
            lang: self._add("waiting", f"{lang}.json", "application/json; charset=utf-8", self._texts(lang))
            for lang in LANGUAGES
            if lang != FALLBACK
        }
        """URL of each language that is not in the script."""
        outages = OutagePages(template=self.source("waiting/outage.html"), locales_dir=locales_dir)
        self.offline = outages.offline()
        """What a CDN shows when no instance answers (VIS-109, PAG-170)."""
        self.origin_down = outages.origin_down(), outages.origin_down(form=True)
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

    def _docs_style(self) -> str:
        style = "".join(bare_lines(self.source(path), end="") for path in DOCS_STYLES)
        return by_system_scheme(style)

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
