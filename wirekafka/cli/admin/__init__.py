"""Commands that administer a cluster: ACLs, users, features, elections, reassignments."""
