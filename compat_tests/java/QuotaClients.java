import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Map;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers that share a client id, until the process is killed.
 *
 * The line that is read has, with tabs: the bootstrap server, topic, client id, count of producers
 * and size of values. Twice a second the bytes of all acknowledged values so far are printed.
 */
public class QuotaClients {
    private static final int QUEUED = 5;

    private static final AtomicLong bytes = new AtomicLong();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String[] words = input.readLine().split("\t");
        for (int index = 0; index < Integer.parseInt(words[3]); index++) {
            new Thread(() -> produce(words)).start();
        }
        while (true) {
            System.out.println(bytes.get());
            System.out.flush();
            Thread.sleep(500);
        }
    }

    private static void produce(String[] words) {
        String topic = words[1];
        int size = Integer.parseInt(words[4]);
        Map<String, Object> settings =
                Map.of(
                        "bootstrap.servers", words[0],
                        "client.id", words[2],
                        "acks", "1",
                        "enable.idempotence", "false",
                        "batch.size", size,
                        "buffer.memory", 1 << 20,
                        "delivery.timeout.ms", 600_000,
                        "request.timeout.ms", 300_000);
        Semaphore queued = new Semaphore(QUEUED);
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, serializer, serializer)) {
            while (true) {
                queued.acquireUninterruptibly();
                producer.send(
                        new ProducerRecord<>(topic, new byte[size]),
                        (metadata, failure) -> {
                            if (failure == null) {
                                bytes.addAndGet(size);
                            }
                            queued.release();
                        });
            }
        }
    }
}
