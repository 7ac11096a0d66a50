import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Random;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Many share consumers of one group until the process is killed, each in a thread of its own.
 *
 * Arguments: the bootstrap server, topic and group, the count of consumers, and a seed. Each
 * delivery is printed before it is acknowledged. Values that begin with "poison" are released
 * every time. Now and then a consumer is abandoned with records that it has not acknowledged.
 */
public class ShareCrowd {
    private static final double ABANDONED = 0.01;

    private final String[] arguments;

    private ShareCrowd(String[] arguments) {
        this.arguments = arguments;
    }

    public static void main(String[] arguments) throws Exception {
        ShareCrowd crowd = new ShareCrowd(arguments);
        for (int index = 0; index < Integer.parseInt(arguments[3]); index++) {
            Random random = new Random(Long.parseLong(arguments[4]) * 1000 + index);
            new Thread(() -> crowd.consume(random)).start();
        }
    }

    private void consume(Random random) {
        while (true) {
            KafkaShareConsumer<String, String> consumer = consumer();
            try {
                while (true) {
                    ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
                    if (!records.isEmpty() && random.nextDouble() < ABANDONED) {
                        break;
                    }
                    process(consumer, records);
                }
                print("abandoned", "");
            } catch (KafkaException failure) {
                // The broker was killed: the records of this poll are delivered again.
                print("failed", failure.getClass().getSimpleName());
            }
        }
    }

    private static void process(
            KafkaShareConsumer<String, String> consumer, ConsumerRecords<String, String> records) {
        for (ConsumerRecord<String, String> record : records) {
            boolean isPoison = record.value().startsWith("poison");
            int deliveries = record.deliveryCount().orElseThrow();
            print(isPoison ? "released" : "accepted", record.value() + "\t" + deliveries);
            consumer.acknowledge(record, isPoison ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
        }
        consumer.commitSync();
    }

    private static synchronized void print(String what, String detail) {
        System.out.println(what + "\t" + detail);
    }

    private KafkaShareConsumer<String, String> consumer() {
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
            Map.of("bootstrap.servers", arguments[0], "group.id", arguments[2],
                "share.acknowledgement.mode", "explicit", "max.poll.records", "20",
                "reconnect.backoff.max.ms", "200"),
            new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(arguments[1]));
        return consumer;
    }
}
