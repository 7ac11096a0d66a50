"""The parts that several APIs share: the registry, routes, access checks, reads and waits."""
