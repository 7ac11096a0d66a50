"""The controller's decisions: commands, placement, elections, sessions and quotas."""
