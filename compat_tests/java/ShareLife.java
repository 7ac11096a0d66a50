import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Two share groups consume ten records, with implicit and with explicit acknowledgement. */
public class ShareLife {
    private static final String TOPIC = "share-life";
    private static final int RECORDS = 10;
    private static final long PATIENCE_MS = 30_000;

    private final String bootstrap;

    private ShareLife(String bootstrap) {
        this.bootstrap = bootstrap;
    }

    public static void main(String[] arguments) throws Exception {
        ShareLife life = new ShareLife(arguments[0]);
        life.prepare();
        System.out.println("implicit\t" + life.implicit());
        System.out.println("explicit\t" + life.explicit());
    }

    private void prepare() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            admin.createTopics(List.of(new NewTopic(TOPIC, 1, (short) 1))).all().get();
            for (String mode : List.of("implicit", "explicit")) {
                ConfigEntry earliest = new ConfigEntry("share.auto.offset.reset", "earliest");
                admin.incrementalAlterConfigs(Map.of(
                    new ConfigResource(ConfigResource.Type.GROUP, group(mode)),
                    List.of(new AlterConfigOp(earliest, AlterConfigOp.OpType.SET)))).all().get();
            }
        }
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap),
                new StringSerializer(), new StringSerializer())) {
            for (int value = 0; value < RECORDS; value++) {
                producer.send(new ProducerRecord<>(TOPIC, "" + value));
            }
        }
    }

    private List<String> implicit() {
        List<String> seen = new ArrayList<>();
        try (KafkaShareConsumer<String, String> consumer = consumer("implicit")) {
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (seen.size() < RECORDS && System.currentTimeMillis() < end) {
                consumer.poll(Duration.ofMillis(500)).forEach(record -> seen.add(record.value()));
            }
            consumer.commitSync();
        }
        return seen;
    }

    /** Releases the record 3 twice and rejects the record 5: each value with its delivery count. */
    private List<String> explicit() {
        List<String> seen = new ArrayList<>();
        try (KafkaShareConsumer<String, String> consumer = consumer("explicit")) {
            long end = System.currentTimeMillis() + PATIENCE_MS;
            while (seen.size() < RECORDS + 2 && System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    int deliveries = record.deliveryCount().orElseThrow();
                    seen.add(record.value() + "x" + deliveries);
                    consumer.acknowledge(record, verdict(record.value(), deliveries));
                }
                consumer.commitSync();
            }
        }
        return seen;
    }

    private static AcknowledgeType verdict(String value, int deliveries) {
        if (value.equals("3") && deliveries < 3) {
            return AcknowledgeType.RELEASE;
        }
        return value.equals("5") ? AcknowledgeType.REJECT : AcknowledgeType.ACCEPT;
    }

    private KafkaShareConsumer<String, String> consumer(String mode) {
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "group.id", group(mode),
                "share.acknowledgement.mode", mode),
            new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(TOPIC));
        return consumer;
    }

    private static String group(String mode) {
        return "share-life-" + mode;
    }
}
