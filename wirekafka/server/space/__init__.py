"""The space of log directories: their budgets, what goes for these, and what is kept unread."""
