"""Configuration: the table of Kafka's options, its sources, and the values derived from both.

Here belong: one row per option in `options` (type, default, checks, how it can be updated,
documentation), the sources and their precedence, the configuration of brokers and topics as typed
objects, the entries of DescribeConfigs, and the checks of AlterConfigs.

Not here: the effect of an option (the code that reads it), where dynamic settings are stored
(`metadata`), and the request handlers (`apis`). A new option is a new row, never a constant or an
environment variable elsewhere.
"""
