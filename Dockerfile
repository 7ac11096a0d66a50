# A broker on port 9092 that keeps its data in /var/lib/kafka/data.
#
#   docker build -t wirekafka .
#   docker run -p 9092:9092 wirekafka
#
# The build needs BuildKit, with which Docker builds by itself since version 23.
#
# It follows the conventions of Apache Kafka's image, so that compose files and Testcontainers made
# for that one can use it: KAFKA_* variables set options (KAFKA_LOG_RETENTION_MS=1000), CLUSTER_ID
# names the cluster of a new volume, /mnt/shared/config/server.properties is read when it is mounted,
# and /etc/kafka/secrets has key stores and passwords.
FROM python:3.12-slim AS build
COPY requirements.lock pyproject.toml README.md LICENSE /src/
COPY wirekafka /src/wirekafka
RUN pip wheel --no-cache-dir --constraint /src/requirements.lock --wheel-dir /wheels /src

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels wirekafka \
    && useradd --uid 1000 --user-group --no-create-home appuser \
    && install --directory --owner=appuser --group=appuser \
        /etc/kafka/secrets /mnt/shared/config /var/lib/kafka/data
COPY docker/run /etc/kafka/docker/run
# The settings if neither a file is mounted nor KAFKA_PROCESS_ROLES is set.
COPY <<EOF /etc/kafka/docker/server.properties
listeners=PLAINTEXT://0.0.0.0:9092
advertised.listeners=PLAINTEXT://localhost:9092
log.dirs=/var/lib/kafka/data
EOF
USER appuser
WORKDIR /var/lib/kafka/data
VOLUME ["/etc/kafka/secrets", "/var/lib/kafka/data", "/mnt/shared/config"]
EXPOSE 9092
ENV PYTHONUNBUFFERED=1
STOPSIGNAL SIGTERM
CMD ["/etc/kafka/docker/run"]
