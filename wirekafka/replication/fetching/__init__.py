"""Fetch sessions of clients and followers, and the fetchers of followers."""
