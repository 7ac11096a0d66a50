import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.Function;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** Reads a topic from the beginning by each kind of consumer: BOOTSTRAP TOPIC RECORDS RACK... */
public class TieredReaders {
    private static final long PATIENCE_MS = 60_000;

    private final String bootstrap;
    private final String topic;
    private final int records;

    private TieredReaders(String bootstrap, String topic, int records) {
        this.bootstrap = bootstrap;
        this.topic = topic;
        this.records = records;
    }

    public static void main(String[] arguments) throws Exception {
        TieredReaders readers =
            new TieredReaders(arguments[0], arguments[1], Integer.parseInt(arguments[2]));
        for (int at = 3; at < arguments.length; at++) {
            for (String protocol : List.of("classic", "consumer")) {
                System.out.printf("%s in %s: %s%n",
                    protocol, arguments[at], readers.consumed(protocol, arguments[at]));
            }
        }
        System.out.println("share: " + readers.shared());
    }

    private String consumed(String protocol, String rack) {
        Map<String, Object> options = options(protocol + "-" + rack);
        options.put("group.protocol", protocol);
        options.put("client.rack", rack);
        options.put("auto.offset.reset", "earliest");
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(options)) {
            consumer.subscribe(List.of(topic));
            return offsets(consumer::poll);
        }
    }

    private String shared() throws Exception {
        Map<String, Object> options = options("share");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
            String group = (String) options.get("group.id");
            admin.incrementalAlterConfigs(Map.of(
                new ConfigResource(ConfigResource.Type.GROUP, group),
                List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
        }
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(options)) {
            consumer.subscribe(List.of(topic));
            return offsets(patience -> {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(patience);
                consumer.commitSync();
                return polled;
            });
        }
    }

    private Map<String, Object> options(String group) {
        Map<String, Object> options = new HashMap<>();
        options.put("bootstrap.servers", bootstrap);
        options.put("group.id", topic + "-" + group + "-" + System.nanoTime());
        options.put("key.deserializer", ByteArrayDeserializer.class);
        options.put("value.deserializer", ByteArrayDeserializer.class);
        return options;
    }

    private String offsets(Function<Duration, ConsumerRecords<byte[], byte[]>> poll) {
        TreeSet<Long> offsets = new TreeSet<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (offsets.size() < records && System.currentTimeMillis() < end) {
            for (ConsumerRecord<byte[], byte[]> record : poll.apply(Duration.ofMillis(500))) {
                if (!offsets.add(record.offset())) {
                    throw new IllegalStateException("offset " + record.offset() + " came twice");
                }
            }
        }
        if (offsets.isEmpty()) {
            return "nothing";
        }
        return offsets.size() + " records, offsets " + offsets.first() + " to " + offsets.last();
    }
}
