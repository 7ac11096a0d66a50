"""Requests that pages of other sites make a visitor's browser send."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

_OWN = ("same-origin", "none")


def is_foreign(headers: Mapping[str, str], host: str | None) -> bool:
    """Whether another site has caused a request to `host`, by the headers of the browser.

    Browsers leave `Sec-Fetch-Site` out where there is no TLS, except for the loopback; then there
    may be `Origin` or `Referer`. Without any of these headers, the request is taken for the
    visitor's own.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site not in _OWN
    origin = headers.get("origin") or headers.get("referer")
    try:
        return origin is not None and urlsplit(origin).netloc != host
    except ValueError:
        return True  # No URL, so none of ours.
