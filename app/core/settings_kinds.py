"""How the text of a variable becomes a value: one small class per kind of variable.

``parse`` gets the text without outer blanks, never empty, and raises BadValue (with a clause that continues
``NAME="text" …``) or OutOfBounds. What then happens is the row's rule: see ``settings_rules.read_row``.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import SplitResult, urlsplit

from app.core.secret import Secret

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
_MAPPED: Final = ipaddress.IPv6Network("::ffff:0:0/96")
_TRUE: Final = frozenset({"1", "true", "yes", "on"})
_FALSE: Final = frozenset({"0", "false", "no", "off"})


class BadValue(ValueError):
    """The text cannot be used; ``str()`` continues a sentence that starts with the variable and the text."""


class OutOfBounds(ValueError):
    """A well-formed value outside its bounds; ``nearest`` is the one inside to use, ``str()`` as of BadValue."""

    def __init__(self, problem: str, nearest: Any) -> None:
        super().__init__(problem)
        self.nearest = nearest


class Kind(Protocol):
    """What every kind can do."""

    def parse(self, text: str) -> Any:
        """Value of ``text``; BadValue or OutOfBounds."""

    def describe(self) -> tuple[str, str]:
        """Type and bounds, in words, for the documentation."""


@dataclass(frozen=True, slots=True)
class Int:
    """Plain decimal digits within bounds (CFG-004)."""

    low: int
    high: int

    def parse(self, text: str) -> int:
        """The number."""
        if not (text.isascii() and text.isdigit()):
            raise BadValue("is not a whole number")
        # A number of a million digits is outside every bound; int() would refuse it with an error of its own.
        number = int(text) if len(text) <= 30 else 10**30
        if not self.low <= number <= self.high:
            nearest = self.low if number < self.low else self.high
            raise OutOfBounds(f"is outside {self.low} to {self.high}", nearest)
        return number

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "whole number", f"{self.low} to {self.high}"


@dataclass(frozen=True, slots=True)
class Bool:
    """1/true/yes/on and 0/false/no/off in any letter case (CFG-005)."""

    def parse(self, text: str) -> bool:
        """The truth value."""
        word = text.lower()
        if word in _TRUE:
            return True
        if word in _FALSE:
            return False
        raise BadValue("is not a boolean (1, true, yes, on, 0, false, no or off)")

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "boolean", ""


@dataclass(frozen=True, slots=True)
class Choice:
    """One of a few words."""

    words: tuple[str, ...]

    def parse(self, text: str) -> str:
        """The word."""
        if text not in self.words:
            raise BadValue(f"is not one of {', '.join(self.words)}")
        return text

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "word", ", ".join(self.words)


@dataclass(frozen=True, slots=True)
class Text:
    """A string that matches a pattern from end to end."""

    pattern: str
    must: str
    """Continues "is not …"."""

    def parse(self, text: str) -> str:
        """The text itself."""
        if re.fullmatch(self.pattern, text) is None:
            raise BadValue(f"is not {self.must}")
        return text

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "text", self.must


@dataclass(frozen=True, slots=True)
class Short:
    """A line of text for people, cut at ``most`` characters."""

    most: int

    def parse(self, text: str) -> str:
        """The text, whatever stands in it."""
        if len(text) > self.most:
            raise OutOfBounds(f"is longer than {self.most} characters", text[: self.most])
        return text

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "text", f"at most {self.most} characters"


@dataclass(frozen=True, slots=True)
class Key:
    """A secret of any form."""

    def parse(self, text: str) -> Secret:
        """The secret."""
        return Secret(text)

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "secret", ""


@dataclass(frozen=True, slots=True)
class KeyList:
    """A comma list of secrets that travel in a header, each of at least ``least`` characters (CFG-058, CFG-133)."""

    least: int
    most_values: int

    def parse(self, text: str) -> tuple[Secret, ...]:
        """The secrets; empty entries are skipped."""
        values = [part.strip() for part in text.split(",") if part.strip()]
        if not 1 <= len(values) <= self.most_values:
            raise BadValue(f"has {len(values)} values; 1 to {self.most_values} can be used")
        if any(len(value) < self.least for value in values):
            raise BadValue(f"has a value of fewer than {self.least} characters")
        if not all(re.fullmatch(r"[\x21-\x7e]+", value) for value in values):
            raise BadValue("has a value with a character that is not visible ASCII")
        return tuple(map(Secret, values))

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "comma list (secret)", f"1 to {self.most_values} values of {self.least} or more visible ASCII characters"


@dataclass(frozen=True, slots=True)
class HostNames:
    """Comma list of host names and addresses, each with or without a port (CFG-023)."""

    def parse(self, text: str) -> tuple[str, ...]:
        """The entries in lower case, without a closing dot; IPv6 in brackets."""
        return tuple(_host(entry.strip()) for entry in text.split(",") if entry.strip())

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "comma list", "name, name:port, IPv4 or [IPv6]"


@dataclass(frozen=True, slots=True)
class StoreUrl:
    """Address of a store; a secret, since it carries a password."""

    schemes: tuple[str, ...]

    def parse(self, text: str) -> Secret:
        """The address as it was set."""
        parts = split_url(text)
        if parts is None or parts.scheme not in self.schemes or not (parts.netloc or parts.path):
            raise BadValue(f"is not an address that starts with {' or '.join(s + '://' for s in self.schemes)}")
        return Secret(text)

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "address (secret)", ", ".join(s + "://" for s in self.schemes)


@dataclass(frozen=True, slots=True)
class HookUrl:
    """Web address that something is sent to; a secret, since whoever knows it can send there too (CFG-008)."""

    def parse(self, text: str) -> Secret:
        """The address as it was set."""
        parts = split_url(text)
        is_web = parts is not None and parts.scheme in {"http", "https"} and parts.hostname
        if not is_web or not text.isascii() or re.search(r"[\s\x00-\x20\x7f]", text):
            raise BadValue("is not an address that starts with http:// or https://")
        return Secret(text)

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "address (secret)", "http://, https://"


@dataclass(frozen=True, slots=True)
class BaseUrl:
    """``http(s)://host[:port]`` with nothing after it but an optional ``/`` (CFG-022)."""

    def parse(self, text: str) -> str:
        """The address without the closing ``/``."""
        parts = split_url(text)
        plain = parts is not None and parts.scheme in {"http", "https"} and parts.hostname and parts.path in {"", "/"}
        if parts is None or not plain or "@" in parts.netloc or "?" in text or "#" in text or re.search(r"\s", text):
            raise BadValue("is not http(s)://host or http(s)://host:port with nothing after it")
        return f"{parts.scheme}://{parts.netloc.lower()}"

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "address", "http(s)://host[:port]"


@dataclass(frozen=True, slots=True)
class Networks:
    """Comma list of addresses and ranges; a range of all addresses is refused (CFG-110, CFG-111, CFG-229)."""

    def parse(self, text: str) -> tuple[Network, ...]:
        """The ranges; mapped IPv6 is written as the IPv4 it stands for."""
        return tuple(_network(entry.strip()) for entry in text.split(",") if entry.strip())

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "comma list", "IPv4, IPv6 or CIDR of either"


@dataclass(frozen=True, slots=True)
class Folder:
    """A path; whether it can be used is found out when it is (CFG-021)."""

    def parse(self, text: str) -> Path:
        """The path, relative to the directory the server was started in."""
        if "\0" in text:
            raise BadValue("is not a path")
        return Path(text)

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "path", ""


@dataclass(frozen=True, slots=True)
class PemFile:
    """A readable file with at least one certificate."""

    def parse(self, text: str) -> Path:
        """The path."""
        path = Path(text)
        try:
            content = path.read_text(errors="replace")
        except OSError as error:
            raise BadValue(f"cannot be read ({error.strerror})") from error
        if "-----BEGIN CERTIFICATE-----" not in content:
            raise BadValue("is not a PEM file with a certificate")
        return path

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "path", "readable PEM file"


@dataclass(frozen=True, slots=True)
class PemText:
    """One or more certificates as text, for platforms without files of secrets (CFG-038)."""

    def parse(self, text: str) -> str:
        """The text, with a line end; ``\\n`` in one line stands for one, as some platforms write it."""
        if "\n" not in text:
            text = text.replace("\\n", "\n")
        try:
            ssl.create_default_context(cadata=text)
        except (ssl.SSLError, ValueError):
            raise BadValue("is not PEM text with a certificate") from None
        return text + "\n"

    def describe(self) -> tuple[str, str]:
        """Type and bounds."""
        return "PEM text", "at least one certificate"


def split_url(text: str) -> SplitResult | None:
    """Parts of an address, or None where even its form is broken (a bad port, an open bracket)."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError:
        return None
    return parts


_HOST_ENTRY: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9_-]*[a-z0-9])?)*\.?|\[(?P<v6>[0-9a-f:.]+)\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)


def _host(entry: str) -> str:
    match = _HOST_ENTRY.fullmatch(entry.lower())
    try:
        if match is None or int(match["port"] or 1) not in range(1, 65536):
            raise ValueError
        if match["v6"]:
            port = f":{match['port']}" if match["port"] else ""
            return f"[{ipaddress.IPv6Address(match['v6'])}]{port}"
    except ValueError:
        raise BadValue(f'has the entry "{entry}", which is not a host name or an IP address') from None
    name, colon, port = entry.lower().partition(":")
    return name.removesuffix(".") + colon + port


def _network(entry: str) -> Network:
    try:
        network: Network = ipaddress.ip_network(entry, strict=False)
    except ValueError:
        raise BadValue(f'has the entry "{entry}", which is not an IP address or a range') from None
    if isinstance(network, ipaddress.IPv6Network) and network.prefixlen >= 96 and network.subnet_of(_MAPPED):
        v4 = int(network.network_address) & 0xFFFFFFFF
        network = ipaddress.IPv4Network((v4, network.prefixlen - 96))
    if network.prefixlen == 0:
        raise BadValue(f'has the entry "{entry}", which would let every caller choose his own address')
    return network
