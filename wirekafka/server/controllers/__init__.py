"""The way between a broker and the metadata quorum: channel, feed, and the quorum's driver."""
