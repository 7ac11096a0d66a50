import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.UUID;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Clients that share a client id, until the process is killed.
 *
 * The line that is read has, with tabs: what they do, the bootstrap server, topic, client id, count
 * of clients and an amount. Twice a second it is printed how much they have done so far: the bytes
 * of all values that were acknowledged ("produce", the amount is the size of a value, and "pace", a
 * value of each client per that many ms) or received ("consume", that of a fetch), the topics
 * created and deleted ("change"), or the clients that got a response ("connect", a new client per
 * that many ms).
 */
public class QuotaClients {
    private static final int QUEUED = 5;
    private static final int PACED_BYTES = 4_000;

    private static final AtomicLong total = new AtomicLong();

    private static String bootstrap;
    private static String topic;
    private static String clientId;
    private static int amount;

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        String[] words = input.readLine().split("\t");
        bootstrap = words[1];
        topic = words[2];
        clientId = words[3];
        amount = Integer.parseInt(words[5]);
        Runnable client =
                switch (words[0]) {
                    case "produce" -> () -> produce(amount, new Rhythm(0));
                    case "pace" -> () -> produce(PACED_BYTES, new Rhythm(amount));
                    case "consume" -> QuotaClients::consume;
                    case "change" -> QuotaClients::change;
                    case "connect" -> QuotaClients::connect;
                    default -> throw new IllegalArgumentException(words[0]);
                };
        for (int index = 0; index < Integer.parseInt(words[4]); index++) {
            new Thread(client).start();
        }
        while (true) {
            System.out.println(total.get());
            System.out.flush();
            Thread.sleep(500);
        }
    }

    private static Map<String, Object> settings(Map<String, Object> further) {
        Map<String, Object> all = new HashMap<>(further);
        all.put("bootstrap.servers", bootstrap);
        all.put("client.id", clientId);
        all.put("request.timeout.ms", 300_000);
        return all;
    }

    private static void produce(int size, Rhythm rhythm) {
        Map<String, Object> settings =
                settings(
                        Map.of(
                                "acks", "1",
                                "enable.idempotence", "false",
                                "batch.size", size,
                                "buffer.memory", 1 << 20,
                                "delivery.timeout.ms", 600_000));
        Semaphore queued = new Semaphore(QUEUED);
        ByteArraySerializer serializer = new ByteArraySerializer();
        try (KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(settings, serializer, serializer)) {
            while (true) {
                rhythm.await();
                queued.acquireUninterruptibly();
                producer.send(
                        new ProducerRecord<>(topic, new byte[size]),
                        (metadata, failure) -> {
                            if (failure == null) {
                                total.addAndGet(size);
                            }
                            queued.release();
                        });
            }
        }
    }

    private static void consume() {
        Map<String, Object> settings =
                settings(Map.of("max.partition.fetch.bytes", amount, "fetch.max.bytes", amount));
        ByteArrayDeserializer deserializer = new ByteArrayDeserializer();
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, deserializer, deserializer)) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 0);
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record :
                        consumer.poll(Duration.ofMillis(200))) {
                    total.addAndGet(record.value().length);
                }
            }
        }
    }

    private static void change() {
        // It tries again by itself where the quota is exceeded.
        Map<String, Object> settings = settings(Map.of("default.api.timeout.ms", 600_000));
        try (Admin admin = Admin.create(settings)) {
            while (true) {
                String name = topic + "-" + UUID.randomUUID();
                NewTopic created = new NewTopic(name, Optional.of(1), Optional.of((short) 1));
                admin.createTopics(List.of(created)).all().get();
                total.incrementAndGet();
                admin.deleteTopics(List.of(name)).all().get();
                total.incrementAndGet();
            }
        } catch (InterruptedException | ExecutionException failure) {
            throw new IllegalStateException(failure);
        }
    }

    private static void connect() {
        Rhythm rhythm = new Rhythm(amount);
        while (true) {
            rhythm.await();
            try (Admin admin = Admin.create(settings(Map.of("default.api.timeout.ms", 600_000)))) {
                admin.describeCluster().nodes().get();
                total.incrementAndGet();
            } catch (InterruptedException | ExecutionException failure) {
                throw new IllegalStateException(failure);
            }
        }
    }

    /** One event in every interval, later if the time between took longer. */
    private static class Rhythm {
        private final long interval;
        private long due;

        Rhythm(int intervalMs) {
            interval = intervalMs * 1_000_000L;
            due = System.nanoTime() + (long) (Math.random() * interval);
        }

        void await() {
            long now = System.nanoTime();
            while (now < due) {
                LockSupport.parkNanos(due - now);
                now = System.nanoTime();
            }
            due = Math.max(due, now - interval) + interval;
        }
    }
}
