"""`--add-scram` is read as by Kafka's format command, and never repeats a password."""

import base64

import pytest

from wirekafka.config.option import ConfigError
from wirekafka.metadata.first_users import parse
from wirekafka.security.sasl.scram import SHA_256, SHA_512, Credential

SALT = bytes(range(16))


def test_a_password_becomes_a_credential() -> None:
    record = parse("SCRAM-SHA-512=[name=admin,password=secret]", SALT)
    expected = Credential.of_password("secret", SHA_512, SALT, 4096)
    assert (record.name, record.mechanism, record.iterations) == ("admin", 2, 4096)
    assert (record.salt, record.stored_key, record.server_key) == (
        SALT,
        expected.stored_key,
        expected.server_key,
    )


def test_fields_may_be_quoted_and_in_any_order() -> None:
    salt = base64.b64encode(b"salty").decode()
    text = f'SCRAM-SHA-256=[iterations=8192,salt="{salt}",password="a,b=c",name="x y"]'
    record = parse(text, SALT)
    expected = Credential.of_password("a,b=c", SHA_256, b"salty", 8192)
    assert (record.name, record.stored_key) == ("x y", expected.stored_key)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "SCRAM-SHA-1=[name=a,password=secret]",
        "SCRAM-SHA-256=[password=secret]",
        "SCRAM-SHA-256=[name=a]",
        "SCRAM-SHA-256=[name=a,password=]",
        "SCRAM-SHA-256=[name=a,password=secret,password=secret]",
        "SCRAM-SHA-256=[name=a,password=secret,saltedpassword=c2VjcmV0,salt=c2VjcmV0]",
        "SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=4095]",
        "SCRAM-SHA-256=[name=a,password=secret,iterations=16385]",
        "SCRAM-SHA-256=[name=a,password=secret,salt=secret!]",
        "SCRAM-SHA-256=[name=a,password=secret,role=secret]",
    ],
)
def test_anything_else_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(ConfigError) as refusal:
        parse(text, SALT)
    assert "secret" not in str(refusal.value)
