"""The field table of a room: every refusal, every bound, what a create and an update take."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from app.core.errors import BadRequest
from app.core.ids import RESERVED_IDS, RESERVED_PREFIXES
from app.domain.automation import AutoActivate
from app.domain.room import RoomConfig, RoomState, UrlRule
from app.domain.room_fields import (
    BY_NAME,
    FIELDS,
    INGRESS_BUDGET,
    READ_ONLY,
    new_config,
    parse_patch,
    settings_json,
)

TARGET = "https://shop.example"
INTEGERS = {
    "rate": (0, 100_000),
    "ratePerMinute": (0, 100_000),
    "maxConcurrent": (1, 1_000_000),
    "passedTtlSec": (1, 86_400),
    "sessionTtlSec": (1, 86_400),
    "sessionMaxSec": (1, 604_800),
    "presenceSec": (1, 3_600),
    "queueMaxPerIp": (1, 1_000_000),
    "preQueueMaxPerIp": (1, 1_000_000),
    "sessionMaxPerIp": (1, 1_000_000),
}
NULLABLE = {"maxConcurrent", "queueMaxPerIp", "preQueueMaxPerIp", "sessionMaxPerIp", "tagOrigins"}
CODES = {
    "name": "invalid_name",
    "targetUrl": "invalid_target_url",
    "state": "invalid_state",
    "rate": "invalid_rate",
    "ratePerMinute": "invalid_rate",
    "maxConcurrent": "invalid_max_concurrent",
    "passedTtlSec": "invalid_passed_ttl_sec",
    "sessionTtlSec": "invalid_session_ttl_sec",
    "sessionMaxSec": "invalid_session_max_sec",
    "presenceSec": "invalid_presence_sec",
    "queueMaxPerIp": "invalid_queue_max_per_ip",
    "preQueueMaxPerIp": "invalid_pre_queue_max_per_ip",
    "sessionMaxPerIp": "invalid_session_max_per_ip",
    "returnOrigins": "invalid_return_origins",
    "tagOrigins": "invalid_tag_origins",
    "rules": "invalid_rules",
    "onBackendDown": "invalid_on_backend_down",
}
NUMBERS = ("ENG-030", "ENG-032", "ENG-033", "ENG-035", "ENG-038", "ENG-039")
"""What the tests of all whole numbers are about."""
RULE = {"id": "r1", "action": "protect", "pattern": "/checkout*"}


def refusal(body: dict[str, Any], *, creating: bool = False) -> BadRequest:
    """The refusal of a body that must be refused."""
    with pytest.raises(BadRequest) as caught:
        parse_patch(body, creating=creating)
    assert caught.value.status == 400
    return caught.value


def value_of(name: str, value: Any) -> Any:
    """What a body with one field stores for it."""
    (stored,) = parse_patch({"id": "shop", name: value}).values.values()
    return stored


@pytest.mark.req(*NUMBERS)
@pytest.mark.parametrize(("name", "bounds"), INTEGERS.items())
def test_it_takes_whole_numbers_up_to_both_bounds(name: str, bounds: tuple[int, int]) -> None:
    assert [value_of(name, bound) for bound in bounds] == list(bounds)


@pytest.mark.req(*NUMBERS)
@pytest.mark.parametrize(
    "wrong", ["60", 60.0, 60.5, True, False, [60], {}, float("nan"), float("inf"), 10**30, -(10**30)]
)
@pytest.mark.parametrize("name", INTEGERS)
def test_it_refuses_what_is_no_whole_number(name: str, wrong: Any) -> None:
    error = refusal({"id": "shop", name: wrong})

    assert (error.code, error.members["fields"]) == (CODES[name], [name])


@pytest.mark.req(*NUMBERS)
@pytest.mark.parametrize(("name", "bounds"), INTEGERS.items())
def test_it_refuses_numbers_beyond_the_bounds_and_states_them(name: str, bounds: tuple[int, int]) -> None:
    for wrong in (bounds[0] - 1, bounds[1] + 1):
        error = refusal({"id": "shop", name: wrong})

        assert error.code == CODES[name]
        assert str(bounds[0]) in error.sentence
        assert str(bounds[1]) in error.sentence


@pytest.mark.req("ENG-052", "ENG-025", *NUMBERS)
@pytest.mark.parametrize("name", CODES)
def test_it_takes_null_only_where_null_has_a_meaning(name: str) -> None:
    if name in NULLABLE:
        assert value_of(name, None) is None
    else:
        assert refusal({"id": "shop", name: None}).code == CODES[name]


@pytest.mark.req("ENG-025")
@pytest.mark.parametrize(
    "wrong", ["", "   ", "x" * 81, "a\nb", "a\x00b", "a\x7fb", "a\u2028b", "\ud800", 5, True, ["a"], {}]
)
def test_it_refuses_a_name_that_cannot_be_shown(wrong: Any) -> None:
    assert refusal({"id": "shop", "name": wrong}).code == "invalid_name"


@pytest.mark.req("ENG-025")
@pytest.mark.parametrize(
    ("sent", "stored"), [("  Shop ", "Shop"), ("x" * 80, "x" * 80), ("ร้านค้า", "ร้านค้า"), ("👩‍💻", "👩‍💻")]
)
def test_it_trims_a_name(sent: str, stored: str) -> None:
    assert value_of("name", sent) == stored


@pytest.mark.parametrize(
    "url",
    [
        "https://shop.example", "http://shop.example/", "https://shop.example:8443/a/b?x=1&y=%20", "http://[2001:db8::1]/a",
        "http://203.0.113.7:80", "HTTPS://Shop.Example/A", "https://shop.example/" + "a" * 2027,
    ],
)  # fmt: skip
def test_it_takes_a_target_url_as_it_was_sent(url: str) -> None:
    assert value_of("targetUrl", url) == url


def test_it_encodes_what_no_header_can_carry_in_a_target_url() -> None:
    assert (
        value_of("targetUrl", "https://shop.example/ร้าน") == "https://shop.example/%E0%B8%A3%E0%B9%89%E0%B8%B2%E0%B8%99"
    )


@pytest.mark.parametrize(
    "url",
    [
        "", "shop.example", "//shop.example", "/a", "ftp://shop.example", "javascript:alert(1)", "https://", "https:///a",
        "https://user@shop.example", "https://user:pw@shop.example", "https://shop.example#top", "https://shop.example/#",
        "https://shop.example/a b", " https://shop.example", "https://shop.example ", "https://shop.example/\r\nX: y",
        "https://shop.example\\@evil.example", "https://shop.example/\\evil", "https://shop.example:0", "https://shop.example:65536",
        "https://shop..example", "https://shop%2eexample", "https://ร้าน.example", "https://shop.example/\x00",
        "https://shop.example/\ud800", "https://shop.example/" + "a" * 2028, 5, True, ["https://shop.example"], {},
    ],
)  # fmt: skip
def test_it_refuses_a_target_url_that_a_browser_may_read_otherwise(url: Any) -> None:
    assert refusal({"id": "shop", "targetUrl": url}).code == "invalid_target_url"


@pytest.mark.req("ENG-029")
@pytest.mark.parametrize("state", [RoomState.ACTIVE, RoomState.PAUSED, RoomState.BYPASS])
def test_it_takes_each_configured_state(state: RoomState) -> None:
    assert value_of("state", state.word) is state


@pytest.mark.req("ENG-029")
@pytest.mark.parametrize("wrong", ["scheduled", "off", "Active", "", 0, 1, True, [], {}])
def test_it_refuses_another_state(wrong: Any) -> None:
    error = refusal({"id": "shop", "state": wrong})

    assert (error.code, error.sentence) == ("invalid_state", "state must be active, paused or bypass")


@pytest.mark.parametrize("wrong", ["OPEN", "", 1, True, [], {}])
def test_it_refuses_another_word_for_on_backend_down(wrong: Any) -> None:
    error = refusal({"id": "shop", "onBackendDown": wrong})

    assert (error.code, error.sentence) == ("invalid_on_backend_down", 'onBackendDown must be "closed" or "open"')


@pytest.mark.req("ENG-041", "ENG-042")
@pytest.mark.parametrize("name", ["returnOrigins", "tagOrigins"])
def test_it_takes_up_to_fifty_origins_once_each(name: str) -> None:
    origins = [f"https://s{n}.shop.example" for n in range(49)] + ["http://*.shop.example:8080"]

    assert value_of(name, origins) == tuple(origins)
    assert value_of(name, ["https://a.example", "https://a.example"]) == ("https://a.example",)
    assert value_of(name, []) == ()
    assert refusal({"id": "shop", name: [*origins, "https://one.more.example"]}).code == CODES[name]


@pytest.mark.req("ENG-041", "ENG-042")
@pytest.mark.parametrize(
    "wrong",
    [
        "https://a.example",
        ["*"],
        ["https://*"],
        ["https://*.example"],
        ["https://a.*.example"],
        ["https://a.example/"],
        ["https://u@a.example"],
        ["a.example"],
        ["ftp://a.example"],
        [""],
        [5],
        [None],
        [["https://a.example"]],
        [{}],
        {},
        5,
        True,
        ["https://a.example\n"],
        ["https://a.example\x00"],
        ["https://www.*.example"],
        ["https://a.example/path"],
        ["https://user@a.example"],
    ],
)
@pytest.mark.parametrize("name", ["returnOrigins", "tagOrigins"])
@pytest.mark.req("ENG-208")
def test_it_refuses_what_is_no_list_of_origins(name: str, wrong: Any) -> None:
    assert refusal({"id": "shop", name: wrong}).code == CODES[name]


@pytest.mark.req("ENG-197")
def test_it_keeps_rules_in_order_and_gives_free_ids() -> None:
    sent = [
        {"action": "skip", "pattern": "/a"},
        {**RULE, "note": "pay"},
        {"action": "protect", "pattern": "https://*.shop.example/b*"},
    ]

    assert value_of("rules", sent) == (
        UrlRule("r2", "skip", "/a"), UrlRule("r1", "protect", "/checkout*", "pay"), UrlRule("r3", "protect", "https://*.shop.example/b*"),
    )  # fmt: skip


@pytest.mark.req("ENG-197")
def test_it_takes_the_longest_id_and_note_of_a_rule() -> None:
    rule = {**RULE, "id": "A-z_09" + "x" * 26, "note": "n" * 120}

    assert value_of("rules", [rule]) == (UrlRule(rule["id"], "protect", "/checkout*", rule["note"]),)


@pytest.mark.req("ENG-043")
def test_it_takes_up_to_fifty_rules() -> None:
    many = [{"action": "skip", "pattern": f"/{n}"} for n in range(50)]

    assert len(value_of("rules", many)) == 50
    assert value_of("rules", []) == ()
    assert refusal({"id": "shop", "rules": [*many, RULE]}).code == "invalid_rules"


@pytest.mark.req("ENG-197")
@pytest.mark.parametrize(
    "wrong",
    [
        "r",
        {},
        5,
        True,
        [5],
        [None],
        ["r1"],
        [{}],
        [{**RULE, "action": "allow"}],
        [{**RULE, "action": None}],
        [{**RULE, "pattern": ""}],
        [{**RULE, "pattern": "checkout"}],
        [{**RULE, "pattern": "/" + "a" * 512}],
        [{**RULE, "pattern": 5}],
        [{**RULE, "pattern": "/a#b"}],
        [{**RULE, "pattern": "/a\x00"}],
        [{**RULE, "pattern": "/\ud800"}],
        [{**RULE, "pattern": "ftp://a.example/"}],
        [{**RULE, "id": ""}],
        [{**RULE, "id": "x" * 33}],
        [{**RULE, "id": "a b"}],
        [{**RULE, "id": 1}],
        [{**RULE, "id": None}],
        [{**RULE, "id": ["r1"]}],
        [RULE, RULE],
        [{**RULE, "note": "x" * 121}],
        [{**RULE, "note": None}],
        [{**RULE, "note": "a\x00"}],
        [{"action": "skip", "pattern": "/a"} for _ in range(51)],
    ],
)
def test_it_refuses_a_rule_that_cannot_be_used(wrong: Any) -> None:
    assert refusal({"id": "shop", "rules": wrong}).code == "invalid_rules"


@pytest.mark.req("ENG-197")
def test_it_names_the_index_of_a_bad_rule() -> None:
    assert "rule 1" in refusal({"id": "shop", "rules": [RULE, {**RULE, "id": "r2", "action": "x"}]}).sentence


@pytest.mark.req("ENG-049")
@pytest.mark.parametrize(
    ("field", "path"),
    [
        ({"rules": [RULE, {**RULE, "id": "r2", "patern": "/b"}]}, "rules[1].patern"),
        ({"rules": [{**RULE, "lastMatched": 5}]}, "rules[0].lastMatched"),
        ({"autoActivate": {"enabled": True, "lastSwitchedAt": 5}}, "autoActivate.lastSwitchedAt"),
        ({"autotune": {"enabled": False, "lastSwitchAt": 5}}, "autotune.lastSwitchAt"),
        ({"protection": {"mode": "off", "blocked": 5}}, "protection.blocked"),
    ],
)
def test_it_refuses_an_unknown_member_of_a_field_with_its_path(field: dict[str, Any], path: str) -> None:
    error = refusal({"id": "shop", **field})

    assert (error.code, error.members["fields"]) == ("unknown_field", [path])


@pytest.mark.req("ENG-053")
@pytest.mark.parametrize("name", ["ratePerMin", "Rate", "target_url", "RULES", "", "__class__"])
def test_it_refuses_a_name_that_is_no_field(name: str) -> None:
    error = refusal({"id": "shop", name: 1})

    assert (error.code, error.members["fields"]) == ("unknown_field", [name])
    assert error.sentence == f'"{name}" is not a field of a room'


@pytest.mark.req("ENG-031", "ADM-130")
def test_it_takes_the_rate_under_both_names_when_they_agree() -> None:
    patch = parse_patch({"id": "shop", "ratePerMinute": 60, "rate": 60})
    error = refusal({"id": "shop", "rate": 60, "ratePerMinute": 61})

    assert (patch.values, patch.sent) == ({"rate_per_minute": 60}, ("id", "rate"))
    assert (error.code, error.members["fields"]) == ("conflicting_field", ["rate", "ratePerMinute"])
    assert error.sentence == "rate and ratePerMinute differ"
    config = RoomConfig(id=patch.id, name="s", target_url=TARGET, rate_per_minute=60)
    assert "ratePerMinute" not in settings_json(config)
    assert settings_json(config)["rate"] == 60


def test_it_counts_true_and_one_as_different_rates() -> None:
    assert refusal({"id": "shop", "rate": 1, "ratePerMinute": True}).members["fields"] == ["ratePerMinute", "rate"]


@pytest.mark.req("ENG-054")
def test_it_reports_the_first_problem_and_lists_every_refused_field() -> None:
    error = refusal({"id": "shop", "name": "", "rate": 5, "nme": 1, "presenceSec": 0, "opensAt": "noon"})

    assert error.code == "invalid_name"
    assert error.members["fields"] == ["name", "nme", "presenceSec", "opensAt"]


@pytest.mark.req("ADM-132", "ENG-014")
@pytest.mark.parametrize("wrong", [None, "", "-a", "_a", "a b", "a/b", "ร้าน", "a" * 65, 5, True, [], {}, "a\n"])
def test_it_refuses_a_malformed_id(wrong: Any) -> None:
    assert refusal({"id": wrong, "name": "x"}).code == "invalid_room_id"


@pytest.mark.req("ADM-132", "ENG-014")
@pytest.mark.parametrize("room_id", ["a", "7", "Shop", "shop", "a" * 64, "A_b-9_", "0-"])
def test_it_takes_an_id_as_it_is_written(room_id: str) -> None:
    assert parse_patch({"id": room_id, "targetUrl": TARGET}, creating=True).id == room_id


@pytest.mark.req("ADM-128", "ENG-014")
def test_it_refuses_a_missing_id() -> None:
    assert refusal({"name": "Shop"}).code == "invalid_room_id"
    assert refusal({}).code == "invalid_room_id"


@pytest.mark.req("ENG-015", "ENG-016", "ENG-017", "ADM-132")
@pytest.mark.req("PAG-163")
def test_it_refuses_reserved_ids_for_new_rooms_only() -> None:
    assert set(RESERVED_PREFIXES) == {"dk_", "meta_", "notify_", "email_"}
    assert set(RESERVED_IDS) == {
        "console", "theme", "lang", "admin_key", "autotune", "autotune_cfg", "wait_samples", "hidden_series",
        "selected_room", "alerts", "offline_attempts", "origin_down_attempts",
    }  # fmt: skip
    for room_id in [*RESERVED_IDS, *(prefix + "x" for prefix in RESERVED_PREFIXES), *RESERVED_PREFIXES]:
        error = refusal({"id": room_id, "targetUrl": TARGET}, creating=True)

        assert (error.code, error.members["fields"]) == ("invalid_room_id", ["id"])
        assert room_id in error.sentence or any(prefix in error.sentence for prefix in RESERVED_PREFIXES)
        assert parse_patch({"id": room_id, "rate": 5}).values == {"rate_per_minute": 5}
    for room_id in ("Console", "DK_x", "dk", "consoles"):
        assert parse_patch({"id": room_id, "targetUrl": TARGET}, creating=True).id == room_id


@pytest.mark.req("ADM-128")
def test_it_asks_a_new_room_for_its_target() -> None:
    error = refusal({"id": "shop", "rate": 5}, creating=True)

    assert (error.code, error.members["fields"]) == ("target_url_required", ["targetUrl"])


LATER = [row for row in FIELDS if not row.built]


@pytest.mark.req("ENG-048")
def test_the_fields_of_other_files_are_on_the_list_with_their_defaults() -> None:
    """Whatever feature of theirs this build has: none of them is an unknown name (ENG-048)."""
    defaults = {
        "preset": None, "proxyOrigins": None, "originHealthPath": None, "originBalance": "least_busy",
        "originAffinity": "visitor", "machinePaths": [], "sessionMaxPerIp": None,
    }  # fmt: skip

    assert {name: BY_NAME[name].default for name in defaults} == defaults
    assert parse_patch({"id": "shop", **defaults, "ingressBudget": INGRESS_BUDGET}).ignored == ()
    assert {row.name for row in LATER} <= {*defaults, "ingressBudget"}


@pytest.mark.req("ENG-048")
@pytest.mark.parametrize("row", LATER, ids=lambda row: row.name)
def test_it_takes_only_the_default_of_a_field_that_nothing_obeys_yet(row: Any) -> None:
    for default in (row.default, *row.also):
        patch = parse_patch({"id": "shop", row.name: default})
        assert patch.values == {}
    for other in (1, True, "x", {"enabled": False}, [{}], 1.5, "1"):
        error = refusal({"id": "shop", row.name: other})
        assert (error.code, error.members["fields"]) == ("not_in_this_build", [row.name])
        assert row.name in error.sentence


@pytest.mark.req("ENG-048")
def test_it_tells_defaults_of_later_fields_apart_by_type() -> None:
    assert parse_patch({"id": "shop", "ingressBudget": INGRESS_BUDGET}).values == {}
    assert refusal({"id": "shop", "machinePaths": {}}).code == "not_in_this_build"
    assert refusal({"id": "shop", "ingressBudget": {**INGRESS_BUDGET, "totalMs": 1000.0}}).code == "not_in_this_build"


@pytest.mark.req("ENG-049")
def test_it_ignores_read_only_facts_and_lists_them() -> None:
    body = {
        "id": "shop",
        **dict.fromkeys(sorted(READ_ONLY), "anything"),
        "rules": [{**RULE, "hits": 7, "lastMatchedAt": None}],
        "autoActivate": {"enabled": True, "lastSwitchAt": 5, "lastSwitch": "opened"},
    }

    patch = parse_patch(body)

    members = ("rules[].hits", "rules[].lastMatchedAt", "autoActivate.lastSwitchAt", "autoActivate.lastSwitch")
    assert patch.ignored == (*sorted(READ_ONLY), *members)
    assert patch.sent == ("id", "rules", "autoActivate")
    assert patch.values == {
        "rules": (UrlRule("r1", "protect", "/checkout*"),), "auto_activate": AutoActivate(True),
    }  # fmt: skip
    assert parse_patch({"id": "shop", **dict.fromkeys(READ_ONLY, 1)}).values == {}, "they change nothing"


@pytest.mark.req("ENG-049")
def test_its_read_only_facts_are_those_of_the_contract() -> None:
    """ADM-114, and what that line means by its words: a test of the list itself, since a body is refused by it."""
    text = (Path(__file__).resolve().parents[2] / "docs/spec/05-admin-api-and-access.md").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("- **ADM-114**")]
    named = {name for name in re.findall(r"`([a-zA-Z0-9]+)`", line) if name not in ("snippet", "inline")}

    assert len(named) > 30
    assert named <= READ_ONLY
    assert READ_ONLY - named <= {"etag", "staleSince"}


def test_it_holds_only_what_was_sent_in_a_patch() -> None:
    patch = parse_patch({"id": "shop", "queueMaxPerIp": None, "state": "paused"})

    assert patch.values == {"queue_max_per_ip": None, "state": RoomState.PAUSED}
    assert patch.sent == ("id", "queueMaxPerIp", "state")


@pytest.mark.req("ENG-029", "ENG-041", "ENG-042", "ENG-043", "ENG-025", "ENG-040", *NUMBERS)
def test_it_gives_a_new_room_the_documented_defaults() -> None:
    config = new_config(parse_patch({"id": "shop", "targetUrl": TARGET}, creating=True))

    assert settings_json(config) == {
        "id": "shop", "name": "shop", "targetUrl": TARGET, "state": "active", "rate": 60, "maxConcurrent": None,
        "passedTtlSec": 600, "sessionTtlSec": 1800, "sessionMaxSec": 14400, "presenceSec": 30, "queueMaxPerIp": 16,
        "preQueueMaxPerIp": 16, "returnOrigins": [], "tagOrigins": None, "rules": [], "onBackendDown": "closed",
        "proxyOrigin": None, "proxyOrigins": None, "opensAt": None, "autoActivate": None, "autotune": None,
        "protection": None, "preset": None, "originHealthPath": None, "originBalance": "least_busy",
        "originAffinity": "visitor", "machinePaths": [], "ingressBudget": None, "sessionMaxPerIp": None,
    }  # fmt: skip


def test_it_takes_its_own_settings_back_without_a_difference() -> None:
    body = {
        "id": "shop",
        "targetUrl": TARGET,
        "name": "Shop",
        "state": "bypass",
        "rate": 0,
        "maxConcurrent": 25,
        "tagOrigins": ["https://a.example"],
        "returnOrigins": ["https://*.b.example"],
        "rules": [RULE],
        "onBackendDown": "open",
    }
    config = new_config(parse_patch(body, creating=True))

    again = parse_patch(json.loads(json.dumps(settings_json(config))), creating=True)

    assert new_config(again) == config


def test_every_row_agrees_with_the_configuration_it_describes() -> None:
    config = RoomConfig(id=parse_patch({"id": "a"}).id, name="a", target_url=TARGET)
    rows = [row for row in FIELDS if row.built and row.name not in ("id", "name", "targetUrl")]

    assert {row.key for row in FIELDS if row.built} == set(RoomConfig.__dataclass_fields__)
    assert {row.name: settings_json(config)[row.name] for row in rows} == {row.name: row.default for row in rows}
    assert len(BY_NAME) == len(FIELDS)
    assert not READ_ONLY & set(BY_NAME)
    assert all(row.help and row.kind for row in FIELDS)
