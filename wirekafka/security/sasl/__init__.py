"""SASL: the server side of each mechanism, and the order of messages in a login (KIP-43, KIP-152).

A mechanism is an `Exchange` of tokens; a `Login` selects one and decides which request may come
next. Nothing here reads a clock, a file or a socket.
"""
