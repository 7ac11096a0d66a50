"""Groups, offsets and transactions, as machines over their logs."""
