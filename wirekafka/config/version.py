"""The version of wirekafka, in the lowest layer because several others report it."""

VERSION = "0.1.0"
