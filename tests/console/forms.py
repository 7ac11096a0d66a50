"""The forms of a page, as a browser would fill and submit them."""

from __future__ import annotations

from bs4 import Tag

from tests.console.site import Shown, Site


def fields_of(form: Tag) -> dict[str, str]:
    """What a browser sends if nothing is changed; buttons are left out."""
    found = {str(each["name"]): str(each.get("value", "")) for each in form.select("input[name]")}
    for area in form.select("textarea"):
        # The parser of browsers drops the line end after the start tag.
        found[str(area["name"])] = area.get_text().removeprefix("\n")
    for choice in form.select("select"):
        chosen = choice.select_one("option[selected]") or choice.select_one("option")
        assert chosen is not None
        found[str(choice["name"])] = str(chosen.get("value", chosen.get_text()))
    return found


def form_of(page: Shown, action: str) -> Tag:
    """The form of a page that is posted to a path."""
    form = page.soup.select_one(f"form[method=post][action='{action}']")
    assert form is not None, f"no form of {action} in {page.text}"
    return form


def fill(site: Site, page: Shown, action: str, /, **changed: object) -> Shown:
    """Submit a form of a page with some fields changed."""
    return site.submit(action, {**fields_of(form_of(page, action)), **changed})
