"""The users that Kafka's format command creates can log in, and ours are the same bytes."""

import subprocess
from pathlib import Path

from compat_tests.apache_kafka import SMALL_JVM, java_command
from tests.sasl_client import SaslClient, ScramClient
from tests.server.serving import Serving
from wirekafka.log.files import RealDisk
from wirekafka.metadata.bootstrap import bootstrap_records
from wirekafka.metadata.first_users import parse
from wirekafka.protocol.records.metadata import UserScramCredentialRecord
from wirekafka.security.sasl.scram import LOGIN_MODULE

SALT = "MWx2NHBkbnc0ZndxN25vdGN4bTB5Y3g3cTA="
USERS = [
    f'SCRAM-SHA-256=[name=carol,salt="{SALT}",iterations=8192,password=carol-secret]',
    f'SCRAM-SHA-512=[name="carol",salt="{SALT}",password="carol-secret"]',
    "SCRAM-SHA-512=[name=dave,password=dave-secret]",
]
PROPERTIES = """process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:1
listeners=SASL_PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:1
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT
inter.broker.listener.name=SASL_PLAINTEXT
sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512
sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512
listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config={module} required;
listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config={module} required;
log.dirs={data}
"""


def test_users_of_the_format_command_log_in(tmp_path: Path) -> None:
    data, properties = tmp_path / "data", tmp_path / "server.properties"
    properties.write_text(PROPERTIES.format(data=data, module=LOGIN_MODULE))
    format_command = [
        *java_command(tmp_path),
        *SMALL_JVM,
        *("kafka.tools.StorageTool", "format", "-t", "b1R0aGVyIG9yYWNsZSEhIQ"),
        *("-c", str(properties)),
        *(word for user in USERS for word in ("--add-scram", user)),
    ]
    subprocess.run(format_command, check=True, capture_output=True)
    written = [
        record
        for record in bootstrap_records(RealDisk(), str(data), 0)
        if isinstance(record, UserScramCredentialRecord)
    ]
    ours = [parse(user, b"") for user in USERS[:2]]
    assert [record for record in written if record.name == "carol"] == ours
    with Serving(data, "--config", str(properties), listen="") as broker:
        _log_in(broker.port, "SCRAM-SHA-256", "sha256", "carol")
        _log_in(broker.port, "SCRAM-SHA-512", "sha512", "carol")
        _log_in(broker.port, "SCRAM-SHA-512", "sha512", "dave")


def _log_in(port: int, mechanism: str, algorithm: str, user: str) -> None:
    client = ScramClient(user, f"{user}-secret", algorithm)
    with SaslClient(port) as connection:
        answer = connection.log_in_scram(mechanism, client)
        assert answer.error_code == 0, answer
        assert client.is_proven_by(bytes(answer.auth_bytes))
