"""The share coordinator (KIP-932): the stored states of share partitions, and its client."""
