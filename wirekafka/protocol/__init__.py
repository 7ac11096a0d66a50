"""Kafka's messages: one module per API with the schemas of its request and response.

**What belongs here.** `heartbeat.py` has `HeartbeatRequest` and `HeartbeatResponse`, whose fields
are Kafka's names and types with the versions that have them; `records/` has the records of
internal topics, of the metadata log and of control batches. Nested structures are
`class Topic(Part)` below the fields.

**What does not.** Behaviour: the handler of an API is the module of the same name in `apis/`.
Encoding: the classes only declare fields, `codec/` compiles them.

`tests/kafka_schemas/test_kafka_schemas.py` compares every class with Kafka's own schemas.
"""
