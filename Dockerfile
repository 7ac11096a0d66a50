# syntax=docker/dockerfile:1
# A broker on port 9092 that keeps its data in /var/lib/kafka/data.
#
#   docker build -t wirekafka .
#   docker run -p 9092:9092 wirekafka
#
# As with Apache Kafka's image, KAFKA_* variables set options (KAFKA_LOG_RETENTION_MS=1000),
# CLUSTER_ID names the cluster of a new volume, and a /mnt/shared/config/server.properties is read
# when it is mounted.
FROM python:3.12-slim AS build
COPY requirements.lock pyproject.toml README.md LICENSE /src/
COPY wirekafka /src/wirekafka
RUN pip wheel --no-cache-dir --constraint /src/requirements.lock --wheel-dir /wheels /src

FROM python:3.12-slim
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir --no-index --find-links /wheels wirekafka \
    && useradd --uid 1000 --user-group --no-create-home appuser \
    && install --directory --owner=appuser --group=appuser /var/lib/kafka/data /mnt/shared/config
# What a mounted file replaces as a whole, and a variable option by option.
COPY <<EOF /etc/wirekafka/server.properties
listeners=PLAINTEXT://0.0.0.0:9092
advertised.listeners=PLAINTEXT://localhost:9092
log.dirs=/var/lib/kafka/data
EOF
USER appuser
VOLUME ["/var/lib/kafka/data", "/mnt/shared/config"]
EXPOSE 9092
ENV PYTHONUNBUFFERED=1
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s \
    CMD ["wirekafka", "topics", "list", "--bootstrap-server", "localhost:9092"]
STOPSIGNAL SIGTERM
CMD ["sh", "-c", "f=/mnt/shared/config/server.properties; [ -f $f ] || f=/etc/wirekafka/server.properties; exec wirekafka serve --config $f"]
