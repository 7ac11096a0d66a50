"""Security: clients' identities, proofs and rights, as pure code without I/O.

Belongs here: SASL mechanisms and logins as state machines, JAAS login modules, credentials, tokens,
names in certificates and the principals made from them, and authorization: ACLs (`acl.py`), the
index that finds the ACLs of a resource (`acl_index.py`), the decisions of Kafka's
StandardAuthorizer with their audit log (`authorizer.py`), and the checks of handlers (`access.py`).
Time and randomness are arguments. Does not belong here: sockets, delays and TLS transports
(`server`), the records that store users, ACLs and tokens (`metadata`), and request schemas with the
operations that they need (`apis`).
"""
