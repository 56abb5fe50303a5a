"""A path of one's own site, out of text that anybody may have written. Source: PAG-155.

Pure. Needs a second reviewer: what passes here is put into a ``Location`` behind the host of the request.
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

from app.domain.inline.hosts import PREFIX

_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\\]").search
_KEPT: Final = "!#$%&'()*+,-./:;=?@[]_|~{}"
MAX_CHARS: Final = 4096


def site_path(text: str) -> str:
    """``text`` if it is a path of this host, ready to be sent; else ``/``.

    It begins with one slash, holds no backslash and no control character, and leads to the site, not to the queue.
    """
    is_path = text[:1] == "/" and text[1:2] != "/" and len(text) <= MAX_CHARS and not _UNSAFE(text)
    if not is_path or text == PREFIX or text.startswith((PREFIX + "/", PREFIX + "?")):
        return "/"
    return quote(text.partition("#")[0], safe=_KEPT)
