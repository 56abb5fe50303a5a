"""What a browser is shown in the place of a page: small, complete, in the visitor's language."""

from __future__ import annotations

import pytest

from app.core.i18n import LANGUAGES, load_locale
from app.server import _error_page
from app.services.small_pages import SmallPages
from blueprints.errors import ErrorFacts, ErrorPage

PAGES = {
    (403, "edge_required"): "closed",
    (403, "cross_site"): "closed",
    (404, "no_room"): "noRoom",
    (404, "not_found"): "notFound",
    (404, "not_inline_host"): "notFound",
    (414, ""): "tooLong",
    (431, ""): "tooLong",
    (429, "rate_limited"): "rateLimited",
    (503, "overloaded"): "crowd",
    (503, "storage_unavailable"): "retry",
}


def shown(status: int, code: str, lang: str) -> ErrorPage:
    page = _error_page(SmallPages())(
        ErrorFacts(status, code, "A sentence", lang, "REQUEST", 10 if status == 503 else 0)
    )
    assert page is not None
    return page


@pytest.mark.req("PAG-142")
@pytest.mark.parametrize("lang", LANGUAGES)
def test_it_shows_every_refusal_in_the_language_of_the_browser(lang: str) -> None:
    texts = load_locale("pages", lang)
    for (status, code), key in PAGES.items():
        page = shown(status, code, lang)
        body = page.body.decode()
        assert texts[key] in body, (status, code)
        assert f'<html lang="{lang}">' in body
        assert len(page.body) <= (1024 if status == 429 else 2048)
        assert '<meta name="robots" content="noindex">' in body
        assert ('http-equiv="refresh"' in body) == (status in (429, 503))
        assert not any(word in body for word in ("X-QM", "Queue Manager", "REQUEST", "<script", "<link", "src="))
        assert b"default-src 'none'" in dict(page.headers)[b"Content-Security-Policy"]
