"""`wirekafka conformance`: the command, its warning, its progress, and its explanations."""
