"""The conformance kit: plain answers, expectations, recordings, reports and the command."""
