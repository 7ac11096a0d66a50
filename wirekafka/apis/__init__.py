"""Kafka's APIs: the handler of each, in a module of its name.

**What belongs here.** A module `heartbeat.py` has the function declared with `@api` that handles
the request of `protocol/heartbeat.py`: it authorizes the client, checks the request, submits a
command to a coordinator or to the controller, or reads and appends partitions, and builds the
response. `shared/` has the parts of several APIs: the registry and routes, access checks, the
controller channel, reads and waits.

**What does not.** Schemas: they are in `protocol/`. State and decisions: groups and transactions
are in `coordinator/`, the cluster in `metadata/`, partitions in `replication/`. Sockets, tasks,
forwarding over the network and the request pipeline: `server/`.

**To add an API**

1. Write `tests/apis/test_<name>.py` first: requests by version and the responses of Apache Kafka.
2. Add `protocol/<name>.py`: `class NameRequest(Request, key=…, versions="0-4", flexible="2+")` and
   `class NameResponse(Response, answers=NameRequest)` after Kafka's JSON schemas, nested
   structures as `class Topic(Part)` below the fields. `tests/kafka_schemas/` compares them with
   Kafka's own schemas.
3. Add `apis/<name>.py`. Its docstring gives Kafka's name of the API, its purpose, and the additions
   of its versions with their KIPs. Declare the handler with `@api(NameRequest, NameResponse)`; with
   `forwarded=True` it runs on the controller. `@controller_api` is for requests that only brokers
   send. Use `async def` only if the handler may wait.
4. Authorize before anything that depends on the contents of the request. Raise `KafkaError` for
   errors. If the response has no top-level error code, add a function declared with
   `@failure_of(handler)` that reports an error for each topic, group or resource.
5. Express versions with `field("3+")`; a handler branches on `call.version` only where Kafka's
   behaviour differs.

6. Add the name to `ApiName` in `testing/hooks/names.py`, unless only brokers send the request.

`shared/registry.py` imports every module of this package. Two tests list exceptions by name: with
`forwarded=True`, add the API to `tests/apis/test_registry.py`; if a version of the response cannot
report a failure, in Kafka either, to `_SAYS_NO_ERROR` in `tests/server/test_pipeline.py`.
"""
