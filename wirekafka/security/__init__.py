"""Security: who a client is, what proves it, and what it may do, as pure code without I/O.

Belongs here: SASL mechanisms and logins as state machines, JAAS login modules, credentials, tokens,
names in certificates and the principals made from them, and authorization: ACLs (`acl.py`), the
index that finds those of a resource (`acl_index.py`), the decisions of Kafka's StandardAuthorizer
with their audit log (`authorizer.py`), and how a handler asks for one (`access.py`). Time and
randomness are arguments.
Does not belong here: sockets, delays and TLS transports (`server`), the records that store users,
ACLs and tokens (`metadata`), and request schemas with the operations that they need (`apis`).
"""
