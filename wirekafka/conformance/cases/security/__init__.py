"""Cases about logins, users, tokens, ACLs, and what each of these permits."""
