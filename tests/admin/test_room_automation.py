"""The two objects of a room by which it changes itself: ``autoActivate`` and ``autotune``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from app.core.errors import BadRequest
from app.core.ids import RoomId
from app.domain.automation import AutoActivate, Autotune
from app.domain.room import RoomConfig
from app.domain.room_codec import config_from_json, config_to_json, field_text
from app.domain.room_fields import parse_patch, settings_json

CONFIG = RoomConfig(RoomId("shop"), "Shop", "https://shop.example")


def value_of(name: str, value: Any) -> Any:
    (stored,) = parse_patch({"id": "shop", name: value}).values.values()
    return stored


def refusal(name: str, value: Any) -> BadRequest:
    with pytest.raises(BadRequest) as caught:
        parse_patch({"id": "shop", name: value})
    return caught.value


@pytest.mark.req("ENG-044")
def test_it_fills_in_what_auto_activate_leaves_out() -> None:
    assert value_of("autoActivate", {"enabled": True}) == AutoActivate(True, 120, 60, 300)
    assert value_of("autoActivate", {"enabled": False, "sustainSec": 5}) == AutoActivate(False, 120, 5, 300)
    assert value_of("autoActivate", None) is None
    assert settings_json(CONFIG)["autoActivate"] is None


@pytest.mark.req("ENG-044")
@pytest.mark.parametrize(
    ("member", "low", "high"), [("joinsPerMin", 1, 1_000_000), ("sustainSec", 1, 3600), ("releaseAfterSec", 0, 86_400)]
)
def test_it_keeps_auto_activate_within_its_bounds(member: str, low: int, high: int) -> None:
    for right in (low, high):
        assert right in vars_of(value_of("autoActivate", {"enabled": True, member: right}))
    for wrong in (low - 1, high + 1, True, "5", 5.0, None):
        error = refusal("autoActivate", {"enabled": True, member: wrong})
        assert (error.code, error.members["fields"]) == ("invalid_auto_activate", ["autoActivate"])
        assert member in error.sentence


@pytest.mark.req("ENG-045", "ENG-223")
def test_it_fills_in_what_autotune_leaves_out() -> None:
    assert value_of("autotune", {"enabled": True, "maxRate": 600}) == Autotune(True, 1, 600, 1000)
    assert value_of("autotune", {"enabled": False}) == Autotune(False, 1, None, 1000)
    assert value_of("autotune", None) is None
    assert settings_json(CONFIG)["autotune"] is None


@pytest.mark.req("ENG-045", "ENG-223")
@pytest.mark.parametrize(
    ("member", "low", "high"), [("minRate", 1, 100_000), ("maxRate", 1, 100_000), ("targetMs", 50, 30_000)]
)
def test_it_keeps_autotune_within_its_bounds(member: str, low: int, high: int) -> None:
    base = {"enabled": True, "maxRate": 100_000}
    for right in (low, high):
        assert right in vars_of(value_of("autotune", {**base, member: right}))
    for wrong in (low - 1, high + 1, True, "5", 5.0):
        assert refusal("autotune", {**base, member: wrong}).code == "invalid_autotune"


@pytest.mark.req("ENG-223")
@pytest.mark.parametrize("wrong", [{"enabled": True}, {"enabled": True, "maxRate": None},
                                   {"enabled": True, "minRate": 10, "maxRate": 9}])  # fmt: skip
def test_it_needs_an_upper_bound_that_is_not_below_the_lower_one(wrong: Any) -> None:
    assert refusal("autotune", wrong).code == "invalid_autotune"


@pytest.mark.parametrize("name", ["autoActivate", "autotune"])
@pytest.mark.parametrize("wrong", [{}, {"enabled": 1}, {"enabled": None}, [], [True], True, 5, "on"])
def test_it_refuses_what_is_no_such_object(name: str, wrong: Any) -> None:
    code = {"autoActivate": "invalid_auto_activate", "autotune": "invalid_autotune"}[name]

    assert refusal(name, wrong).code == code


def test_it_names_an_unknown_member_by_its_path() -> None:
    error = refusal("autoActivate", {"enabled": True, "joinPerMin": 5})

    assert (error.code, error.members["fields"]) == ("unknown_field", ["autoActivate.joinPerMin"])
    assert refusal("autotune", {"enabled": False, "lastSwitch": "x"}).code == "unknown_field"


@pytest.mark.req("ENG-221")
def test_it_takes_back_the_facts_that_a_read_object_carries() -> None:
    sent = {"enabled": True, "lastSwitchAt": 5, "lastSwitch": "opened"}

    patch = parse_patch({"id": "shop", "autoActivate": sent})

    assert patch.values["auto_activate"] == AutoActivate(True)
    assert patch.ignored == ("autoActivate.lastSwitchAt", "autoActivate.lastSwitch")


def test_it_keeps_both_objects_in_every_form() -> None:
    config = replace(CONFIG, auto_activate=AutoActivate(True, 5, 6, 7), autotune=Autotune(True, 1, 2, 50))

    assert config_from_json(config_to_json(config)) == config
    assert field_text(config.auto_activate) == (
        '{"enabled":true,"joins_per_min":5,"release_after_sec":7,"sustain_sec":6}'
    )
    assert settings_json(config)["autoActivate"] == {
        "enabled": True, "joinsPerMin": 5, "sustainSec": 6, "releaseAfterSec": 7,
    }  # fmt: skip
    assert settings_json(config)["autotune"] == {"enabled": True, "minRate": 1, "maxRate": 2, "targetMs": 50}


def vars_of(value: Any) -> list[Any]:
    return [getattr(value, name) for name in value.__slots__]
