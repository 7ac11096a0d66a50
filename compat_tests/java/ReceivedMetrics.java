import java.util.List;
import java.util.Map;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.shaded.com.google.protobuf.InvalidProtocolBufferException;
import org.apache.kafka.shaded.io.opentelemetry.proto.metrics.v1.MetricsData;

/** Decodes the metrics that clients push, keeps nothing, and reports no metrics of the broker. */
abstract class ReceivedMetrics implements MetricsReporter {
    static void decode(ClientTelemetryPayload payload) {
        try {
            MetricsData.parseFrom(payload.data());
        } catch (InvalidProtocolBufferException error) {
            throw new IllegalArgumentException(error);
        }
    }

    @Override
    public void configure(Map<String, ?> configs) {}

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
