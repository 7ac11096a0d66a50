"""JAAS texts are parsed as by Kafka, and never repeated in a message."""

import pytest

from wirekafka.security.jaas import JaasError, LoginModule, parse, parse_file

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_module_with_options() -> None:
    module = parse(f"{PLAIN} required username=\"admin\" password='a b' user_x=y;")
    assert module.name == PLAIN
    assert module.options == {"username": "admin", "password": "a b", "user_x": "y"}


def test_a_module_without_options() -> None:
    assert parse(f"{PLAIN} Required ;").options == {}


def test_quotes_escapes_and_comments() -> None:
    text = f'{PLAIN} /* why */ required // so\n a="1;\\"2\\\\" b = "\\t\\101" user_a-b_c="=";'
    assert parse(text).options == {"a": '1;"2\\', "b": "\tA", "user_a-b_c": "="}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Login module not specified"),
        (f"{PLAIN};", "Control flag not specified"),
        (f"{PLAIN} maybe;", "Invalid login module control flag"),
        (f"{PLAIN} required", "not terminated by semi-colon"),
        (f'{PLAIN} required password="hush"', "not terminated by semi-colon"),
        (f"{PLAIN} required password;", "Value not specified for key 'password'"),
        (f"{PLAIN} required password=;", "Value not specified for key 'password'"),
        (f'{PLAIN} required password="hush;', "Value not specified"),
        (f'{PLAIN} required password="hush"; {PLAIN} required;', "2 login modules"),
    ],
)
def test_anything_else_is_refused_without_its_values(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as refusal:
        parse(text)
    assert "hush" not in str(refusal.value)


def test_options_are_hidden() -> None:
    assert "hush" not in repr(parse(f'{PLAIN} required password="hush";'))


SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def test_a_file_has_modules_by_name() -> None:
    text = f"""
        // The users of every listener.
        KafkaServer {{
            {PLAIN} required
                user_alice="a";
            {SCRAM} required username=broker;
        }};
        inside-1.KafkaServer {{ {PLAIN} required; }};
        Client {{}};
    """
    assert parse_file(text) == {
        "KafkaServer": (
            LoginModule(PLAIN, {"user_alice": "a"}),
            LoginModule(SCRAM, {"username": "broker"}),
        ),
        "inside-1.KafkaServer": (LoginModule(PLAIN, {}),),
        "Client": (),
    }
    assert parse_file("") == {}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("KafkaServer", "KafkaServer of JAAS file has no opening brace"),
        ("{ };", "Name of an entry not specified"),
        (f'KafkaServer {{ {PLAIN} required password="hush"; ', "has no closing brace"),
        (f'KafkaServer {{ {PLAIN} required password="hush" }};', "not terminated by semi-colon"),
        ("KafkaServer { }", "KafkaServer of JAAS file not terminated by semi-colon"),
        ("KafkaServer { }; KafkaServer { };", "several entries for KafkaServer"),
    ],
)
def test_no_other_file_is_accepted(text: str, reason: str) -> None:
    with pytest.raises(JaasError, match=reason) as refusal:
        parse_file(text)
    assert "hush" not in str(refusal.value)
