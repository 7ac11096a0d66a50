"""What clients can make a node remember: every store has a bound, and is in the documents."""
