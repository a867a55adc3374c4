"""Where do weights come from, and may we ask there?

A model URI is a user's text that makes a pod open connections from inside the cluster, so it is
read strictly: one of seven schemes, plain characters, no credentials, no way out of a folder, and
no address that only the inside of the cluster or the node can reach (cloud metadata, the API
server, a neighbour's Service). This module judges the text; whoever fetches asks
`is_internal_address` again for each address that a name turns out to have, and for each redirect.

Nothing raises for what a user wrote: the answer is a `Source` or a `Refusal` with one sentence.
"""

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias
from urllib.parse import unquote

from stoker.api.reasons import Reason, TerminationClass
from stoker.core.model import Refusal

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address


class Scheme(StrEnum):
    """The kinds of source."""

    HF = "hf"
    S3 = "s3"
    GS = "gs"
    AZ = "az"
    OCI = "oci"
    HTTPS = "https"
    PVC = "pvc"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A model URI in its parts."""

    uri: str
    scheme: Scheme
    authority: str
    """Owner (hf), bucket or container (s3, gs, az), registry or host with its port (oci, https; in
    lower case), or claim (pvc)."""
    path: str
    """What follows, without a slash at either end; may be empty but for hf and oci."""

    @property
    def repository(self) -> str:
        """`OWNER/NAME` of a Hugging Face source."""
        return f"{self.authority}/{self.path}"


_FORMS = {
    Scheme.HF: "hf://OWNER/NAME",
    Scheme.S3: "s3://BUCKET/PATH",
    Scheme.GS: "gs://BUCKET/PATH",
    Scheme.AZ: "az://CONTAINER/PATH",
    Scheme.OCI: "oci://REGISTRY/NAME:TAG",
    Scheme.HTTPS: "https://HOST/PATH",
    Scheme.PVC: "pvc://CLAIM/PATH",
}
_NETWORK = frozenset({Scheme.OCI, Scheme.HTTPS})
"""Schemes whose authority is a host that we connect to."""

_PLAIN = re.compile(r"[!-~]+")
_OWNER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,221}")
_CLAIM = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_HOST = re.compile(r"(?P<host>\[[0-9a-f:.]+\]|[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\.?)(:(?P<port>\d{1,5}))?")
_AUTHORITIES = {
    Scheme.HF: _OWNER,
    Scheme.S3: _BUCKET,
    Scheme.GS: _BUCKET,
    Scheme.AZ: _BUCKET,
    Scheme.OCI: _HOST,
    Scheme.HTTPS: _HOST,
    Scheme.PVC: _CLAIM,
}

_INSIDE_SUFFIXES = (".svc", ".local", ".internal", ".localhost", ".localdomain", ".home.arpa")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def parse_source(uri: str, *, allow_cluster_internal: bool) -> Source | Refusal:
    """The source that a model URI names, or why it is refused.

    With `allow_cluster_internal` (a setting of the operator) names and addresses inside the
    cluster are taken too; everything else is checked all the same.

    Example: `hf://Qwen/Qwen2.5-7B-Instruct` -> scheme hf, authority `Qwen`, path `Qwen2.5-7B-Instruct`.
    """
    name, separator, rest = uri.partition("://")
    if not separator or name not in set(Scheme):
        return _malformed(f"the source must start with one of {', '.join(f'{s}://' for s in Scheme)}")
    scheme = Scheme(name)
    form = f"it must look like {_FORMS[scheme]}"
    if "@" in rest.partition("/")[0]:
        return _malformed(
            "the source has a user name or password in it; put it into `model.credentialsSecret`"
        )
    if not _PLAIN.fullmatch(rest) or any(mark in rest for mark in "?#\\"):
        return _malformed(
            f"the source has a character that is not allowed (blank, control, ?, #, \\); {form}"
        )

    authority, _, path = rest.partition("/")
    if scheme in _NETWORK:
        authority = authority.lower()
    path = path.rstrip("/")
    if not _AUTHORITIES[scheme].fullmatch(authority):
        return _malformed(f"`{authority}` is not a name that {scheme}:// can have there; {form}")
    if (scheme is Scheme.OCI and not path) or (scheme is Scheme.HF and not _OWNER.fullmatch(path)):
        return _malformed(f"the source `{uri}` is not complete; {form}")
    if refusal := _climbs(path, uri=uri):
        return refusal
    if scheme in _NETWORK and (refusal := _inside(authority, allowed=allow_cluster_internal)):
        return refusal
    return Source(uri=uri, scheme=scheme, authority=authority, path=path)


def is_internal_address(address: IpAddress) -> bool:
    """Whether an address is one that only the node, the cluster or the site can reach.

    Loopback, link-local (cloud metadata), private, carrier-grade NAT, unspecified, multicast and
    reserved ones, and IPv6 forms that carry such an IPv4 address.
    """
    if isinstance(address, ipaddress.IPv6Address):
        embedded = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if address in _NAT64:
            embedded = ipaddress.IPv4Address(int(address) & 0xFFFF_FFFF)
        if embedded is not None:
            return is_internal_address(embedded)
    return not address.is_global or address.is_multicast


def is_cluster_name(host: str) -> bool:
    """Whether a host name is one that the cluster's or the site's own DNS answers.

    A name without a dot is one: the pod's search domains complete it to a Service.
    """
    name = host.lower().rstrip(".")
    return "." not in name or name.endswith(_INSIDE_SUFFIXES) or ".svc." in name


def _climbs(path: str, *, uri: str) -> Refusal | None:
    decoded = unquote(path)
    segments = decoded.split("/") if decoded else []
    if (
        "%" in decoded
        or not decoded.isprintable()
        or any(part in ("", ".", "..") or "\\" in part for part in segments)
    ):
        return Refusal(
            reason=TerminationClass.SOURCE_NOT_ALLOWED,
            message=f"the path of `{uri}` leaves its folder or has an empty part; "
            "write it without `..`, `.`, `//` and `%25`",
        )
    return None


def _inside(authority: str, *, allowed: bool) -> Refusal | None:
    match = _HOST.fullmatch(authority)
    host = match["host"] if match else authority
    if match and match["port"] and not 0 < int(match["port"]) < 65_536:
        return _malformed(f"`{authority}` has a port that does not exist; use 1 to 65535")
    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        if host.startswith("[") or _reads_as_number(host):
            return _malformed(f"`{host}` is neither a host name nor an address as it is usually written")
        internal = is_cluster_name(host)
    else:
        internal = is_internal_address(address)
    if not internal or allowed:
        return None
    return Refusal(
        reason=TerminationClass.SOURCE_NOT_ALLOWED,
        message=f"`{host}` is inside the cluster or the site; use a public host, "
        "or allow cluster-internal sources in the operator's settings",
    )


def _reads_as_number(host: str) -> bool:
    """Whether a resolver may take the name for an address in disguise: `0x7f.1`, `2130706433`."""
    last = host.rstrip(".").rpartition(".")[2]
    return last.isdigit() or last.startswith("0x")


def _malformed(message: str) -> Refusal:
    return Refusal(reason=Reason.INVALID_SPEC, message=message)
