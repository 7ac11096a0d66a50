"""Settings under which sessions, locks and assignments of share groups take seconds."""

SHORT_TIMES = (
    "group.share.min.session.timeout.ms=1000",
    "group.share.session.timeout.ms=3000",
    "group.share.min.heartbeat.interval.ms=100",
    "group.share.heartbeat.interval.ms=500",
    "group.share.assignment.interval.ms=100",
    "group.share.min.record.lock.duration.ms=1000",
    "group.share.record.lock.duration.ms=2000",
)
"""Lines of `server.properties`."""
