import pytest

from ottla.model.config import ConfigError, parse_properties


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b c ", "a", "b c "),
        ("a: b", "a", "b"),
        ("a b=c", "a", "b=c"),
        ("a\tb", "a", "b"),
        ("a==b", "a", "=b"),
        ("a", "a", ""),
        ("a=", "a", ""),
        ("  a=b", "a", "b"),
        (r"a\ b\=c=d", "a b=c", "d"),
        (r"path=C\:\\x\ty", "path", "C:\\x\ty"),
        (r"a=\u00e4\q", "a", "äq"),
        ("a=1,\\\n   2,\\\r\n\t3", "a", "1,2,3"),
        ("a=x\\\\\nb=y", "a", "x\\"),
        ("a=b\\", "a", "b"),
        ("a=b # no comment", "a", "b # no comment"),
    ],
)
def test_an_entry_is_read_as_java_does(text: str, name: str, value: str) -> None:
    first = next(iter(parse_properties(text)))
    assert (first.name, first.value) == (name, value)


def test_comments_and_blank_lines_count_as_lines_only() -> None:
    text = "# one\n\n! three\n   # four\na=1\n\\\n# joined to a blank continuation\nb=2"
    assert [(entry.name, entry.line) for entry in parse_properties(text)] == [("a", 5), ("#", 6), ("b", 8)]


def test_a_broken_escape_is_refused_with_its_line() -> None:
    with pytest.raises(ConfigError, match=r"server.properties, line 2: .*hexadecimal"):
        list(parse_properties("a=1\nb=\\u12", "server.properties"))
