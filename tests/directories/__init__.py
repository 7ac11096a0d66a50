"""Log directories as each release of Apache Kafka left them at a clean stop, opened again.

`python -m compat_tests.make_directories` wrote the archives.
"""
