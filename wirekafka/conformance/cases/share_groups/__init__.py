"""The cases of share groups (KIP-932)."""
