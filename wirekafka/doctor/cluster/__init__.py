"""Checks of a cluster: facts that its brokers answered, and the findings that follow from them."""
