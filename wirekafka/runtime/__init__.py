"""State machines over a log: the contract of a machine, its runtime, promises and timers."""
