"""What the operators' guide has to tell, so that nobody locks his visitors out by following it."""

from __future__ import annotations

from pathlib import Path

import pytest

GUIDE = " ".join((Path(__file__).resolve().parents[2] / "docs/operations.md").read_text().split())


def in_order(*words: str) -> None:
    """Each of ``words`` stands in the guide, behind the one before it."""
    at = 0
    for word in words:
        assert word in GUIDE[at:], word
        at = GUIDE.index(word, at) + len(word)


@pytest.mark.req("CFG-135")
def test_it_sets_the_edge_secret_up_in_the_order_that_refuses_nobody() -> None:
    in_order(
        "openssl rand -hex 32",
        "Transform Rules → Modify Request Header → Set static",
        "`X-QM-Edge`",
        "`Hostname equals`",
        "never for all incoming requests",
        "hand the secret to every other origin of the zone",
        "Deploy the rule",
        "Set `EDGE_SECRET` to the same value and deploy",
    )


@pytest.mark.req("CFG-134")
def test_it_changes_the_edge_secret_in_three_steps() -> None:
    in_order("`EDGE_SECRET=old,new` and deploy", "change the rule to the new value", "`EDGE_SECRET=new` and deploy")


@pytest.mark.req("CFG-230", "CFG-101")
def test_it_tells_what_a_wrong_number_of_proxies_does() -> None:
    in_order("about 94 % of the joins")
    in_order(
        "`TRUST_PROXY=2` and the addresses of the load balancer, which must then accept connections from the CDN only"
    )
    in_order("not listed gets cookies without `Secure`; list it, or set `COOKIE_SECURE=1`")
    in_order("hands that choice to every visitor", "made-up header", "audit trail", "X-Forwarded-For: 192.0.2.1")


@pytest.mark.req("CFG-177")
def test_it_asks_for_enough_files() -> None:
    in_order("2 × `MAX_CONNECTIONS` + `CONNECTION_RESERVE` + 256")
