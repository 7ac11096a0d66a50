"""Kafka's APIs: one module per API with its schemas, its handler and its error response.

**What belongs here.** A module `heartbeat.py` has `HeartbeatRequest` and `HeartbeatResponse`, whose
fields are Kafka's names and types with the versions that have them, and the function declared with
`@api` that handles the request: it checks the request, submits a command to a coordinator or to
the controller, or reads and appends partitions, and builds the response. Besides the APIs there
are `registry.py`, the controller channel, which sends some of these requests, and modules for
what two APIs share (`config_changes.py`, `fencing.py`, `node_endpoints.py`) or what would make
one too long (`fetch_reads.py`).

**What does not.** State and decisions: those of groups and transactions are in `coordinator/`,
those of the cluster in `metadata/`, those of partitions in `replication/`. Sockets, tasks,
forwarding over the network and the request pipeline: they are in `server/`. Encoding: the classes
here only declare fields, `codec/` compiles them.

**To add an API**

1. Write `tests/apis/test_<name>.py` first: requests by version and the responses of Apache Kafka.
2. Add `<name>.py`. Its docstring gives Kafka's name of the API, what it does, and what its versions
   added with their KIPs. Write `class NameRequest(Request, key=…, versions="0-4", flexible="2+")`
   and `class NameResponse(Response, answers=NameRequest)` after Kafka's JSON schemas, nested
   structures as `class Topic(Part)` below the fields. `tests/codec/test_kafka_schemas.py` compares
   them with Kafka's own schemas.
3. Declare the handler with `@api(NameRequest, NameResponse)`; with `forwarded=True` it runs on the
   controller. `@controller_api` is for requests that only brokers send. Use `async def` only if the
   handler may wait.
4. Raise `KafkaError` for errors. If the response has no top-level error code, add a function
   declared with `@failure_of(handler)` that reports an error for each topic, group or resource.
5. Express versions with `field("3+")`; a handler branches on `call.version` only where Kafka's
   behaviour differs.

Nothing else has to be registered: `registry.load` imports every module of this package.
"""
