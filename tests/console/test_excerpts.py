"""Keys, values and headers as the console displays them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirekafka.console.excerpts import Excerpt, Form, compact, excerpt_of, readable, show, visible


def shown(data: bytes, form: Form = Form.AUTO, kept_bytes: int = 4096) -> tuple[Form, str]:
    found = show(excerpt_of(data, kept_bytes), form)
    return found.form, found.text


def test_objects_and_arrays_are_indented_json():
    data = b'{"b":[1,{"c":null}],"a":"x, {y}: \\"z\\"","empty":[],"also":{}}'
    assert shown(data) == (
        Form.JSON,
        """\
{
  "b": [
    1,
    {
      "c": null
    }
  ],
  "a": "x, {y}: \\"z\\"",
  "empty": [],
  "also": {}
}""",
    )


def test_numbers_and_repeated_names_stay_as_written():
    text = '{"n": 0.10, "n": 1e400, "big": 12345678901234567890123, "é": "\\u00e9"}'
    lines = shown(text.encode())[1].splitlines()
    assert lines[1:5] == [
        '  "n": 0.10,',
        '  "n": 1e400,',
        '  "big": 12345678901234567890123,',
        '  "é": "\\u00e9"',
    ]


@pytest.mark.parametrize(
    "data", [b"7", b'"quoted"', b"{not json}", b"[1,", b"true", b"caf\xc3\xa9"]
)
def test_anything_else_in_utf_8_is_text(data):
    assert shown(data) == (Form.TEXT, data.decode())


@pytest.mark.parametrize("data", [b"\xff\xfe", b"\x00\x00\x00\x2a", b"{\x00"])
def test_other_bytes_are_hexadecimal(data):
    form, text = shown(data)
    assert form is Form.HEX
    assert text.startswith(f"00000000  {data.hex(' ')}")


def test_hexadecimal_lines_have_16_bytes_and_their_characters():
    assert shown(bytes(range(60, 80)), Form.HEX)[1].splitlines() == [
        "00000000  3c 3d 3e 3f 40 41 42 43 44 45 46 47 48 49 4a 4b  <=>?@ABCDEFGHIJK",
        "00000010  4c 4d 4e 4f                                      LMNO",
    ]


def test_text_can_be_asked_for():
    assert shown(b"a\xff\x01", Form.TEXT) == (Form.TEXT, "a\\xff\\u0001")
    assert shown(b'{"a":1}', Form.TEXT) == (Form.TEXT, '{"a":1}')


def test_what_is_not_json_is_text_where_json_is_asked_for():
    assert shown(b"a\x01", Form.JSON) == (Form.TEXT, "a\\u0001")


def test_deep_nesting_neither_fails_nor_explodes():
    deep = b"[" * 100_000 + b"]" * 100_000
    assert shown(deep, kept_bytes=1 << 20)[0] in (Form.TEXT, Form.JSON)
    modest = b"[" * 500 + b"]" * 500
    form, text = shown(modest)
    assert form is Form.JSON and len(text) < 250_000


def test_a_cut_does_not_turn_text_into_bytes():
    found = show(excerpt_of("aé".encode() * 10, 2))
    assert (found.form, found.text, found.is_cut) == (Form.TEXT, "a", True)


def test_cut_json_is_text():
    found = show(Excerpt(b'{"a": 1}', 9))
    assert (found.form, found.is_cut) == (Form.TEXT, True)


@pytest.mark.parametrize("hostile", ["\u202e", "\u2066", "\u200b", "\x1b", "\x7f", "\u2028"])
def test_characters_that_deceive_are_escaped(hostile):
    assert hostile not in visible(f"a{hostile}b")
    assert hostile not in shown(f'{{"a": "{hostile}"}}'.encode())[1]


@given(st.binary(max_size=200), st.sampled_from(Form), st.integers(0, 200))
def test_any_bytes_can_be_shown_in_any_form(data, form, kept_bytes):
    found = show(excerpt_of(data, kept_bytes), form)
    assert found.form is not Form.AUTO
    assert found.is_cut == (kept_bytes < len(data))
    found.text.encode()


@given(st.recursive(st.integers() | st.text() | st.none(), lambda inner: st.lists(inner)))
def test_indented_json_has_the_same_value(value):
    data = json.dumps([value]).encode()
    found = show(excerpt_of(data, 1 << 20))
    assert found.form is Form.JSON and json.loads(found.text) == [value]


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"\x00\x00\x00\x07abc", r"\x00\x00\x00\x07abc"),
        (b"caf\xc3\xa9\xff\n", r"café\xff\x0a"),
        (b"a\\x41", r"a\\x41"),
        ("\u202e\x85".encode(), r"\u202e\u0085"),
    ],
)
def test_binary_data_is_one_readable_line(data, line):
    assert readable(data) == line


@given(st.binary())
def test_any_bytes_are_one_line_of_visible_characters(data):
    assert readable(data).isprintable()


@given(
    st.recursive(
        st.integers() | st.text(), lambda each: st.lists(each) | st.dictionaries(st.text(), each)
    )
)
def test_json_on_one_line_is_the_same_json(value):
    data = json.dumps([value]).encode()
    form, text = shown(data, kept_bytes=1 << 20)
    assert form is Form.JSON
    assert "\n" not in compact(text)
    assert json.loads(compact(text)) == [value]
