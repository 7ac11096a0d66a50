"""The `wirekafka` command and its subcommands.

Belongs here: parsing of arguments, output for people and scripts, and a small synchronous client.
`serve` starts a broker; most other commands use Kafka's protocol and so work with any Kafka broker,
and a few read log directories. Does not belong here: the work of a broker on a request or a log.
Each subcommand is imported only when it runs, so that `serve` starts fast.
"""
