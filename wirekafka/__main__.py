"""`python -m wirekafka` is the `wirekafka` command."""

from wirekafka.cli.main import main

main()
