import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.BiFunction;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * What share consumers observe of the options of their groups: a topic and a group for each.
 *
 * The broker restarts after the line "restart" of the output; a line of input reports that.
 */
public class ShareOptions {
    private static final long PATIENCE_MS = 30_000;
    private static final long LOCK_MS = 2_000;
    private static final int LIMIT = 3;

    private final String bootstrap;
    private final Admin admin;

    private ShareOptions(String bootstrap) {
        this.bootstrap = bootstrap;
        this.admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    public static void main(String[] arguments) throws Exception {
        ShareOptions options = new ShareOptions(arguments[0]);
        Map<String, Callable<List<String>>> cases = new TreeMap<>();
        cases.put("renewed", () -> options.expiring("renewed", true));
        cases.put("expired", () -> options.expiring("expired", false));
        cases.put("limited", options::limited);
        cases.put("committed", () -> options.transactions("committed", "read_committed"));
        cases.put("uncommitted", () -> options.transactions("uncommitted", "read_uncommitted"));
        cases.put("earliest", () -> options.reset("earliest"));
        cases.put("latest", () -> options.reset("latest"));
        cases.put("by_duration", () -> options.reset("by_duration:PT1H"));
        ExecutorService threads = Executors.newCachedThreadPool();
        Map<String, Future<List<String>>> results = new TreeMap<>();
        cases.forEach((name, test) -> results.put(name, threads.submit(test)));
        for (Map.Entry<String, Future<List<String>>> result : results.entrySet()) {
            System.out.println(result.getKey() + "\t" + result.getValue().get());
        }
        threads.shutdown();
        System.out.println("restarted\t" + options.restarted());
        options.admin.close();
    }

    /** The lock of the record 1 expires, unless it is renewed; the records 0 and 2 are accepted. */
    private List<String> expiring(String name, boolean renews) throws Exception {
        prepare(name, Map.of("share.auto.offset.reset", "earliest"));
        produce(name, "0", "1", "2");
        List<String> seen = new ArrayList<>();
        try (KafkaShareConsumer<String, String> first = consumer(name, name, 500)) {
            ConsumerRecords<String, String> records = pollSome(first);
            for (ConsumerRecord<String, String> record : records) {
                seen.add(text(record));
                if (!record.value().equals("1")) {
                    first.acknowledge(record, AcknowledgeType.ACCEPT);
                } else if (renews) {
                    first.acknowledge(record, AcknowledgeType.RENEW);
                }
            }
            first.commitSync();
            if (!renews) {
                // The record stays acquired, and its consumer stays away.
                try (KafkaShareConsumer<String, String> other = consumer(name, name, 500)) {
                    seen.addAll(consume(other, 1, (value, count) -> AcknowledgeType.ACCEPT));
                }
                return seen;
            }
            long end = System.currentTimeMillis() + 2 * LOCK_MS;
            while (System.currentTimeMillis() < end) {
                for (ConsumerRecord<String, String> record : first.poll(Duration.ofMillis(300))) {
                    if (!record.value().equals("1") || record.deliveryCount().orElseThrow() != 1) {
                        seen.add("unexpected " + text(record));
                    }
                    first.acknowledge(record, AcknowledgeType.RENEW);
                }
                first.commitSync();
            }
            seen.addAll(consume(first, 1, (value, count) -> AcknowledgeType.ACCEPT));
        }
        return seen;
    }

    /** The record 1 is released until it is archived; the record 3 follows. */
    private List<String> limited() throws Exception {
        prepare("limited", Map.of("share.auto.offset.reset", "earliest",
            "share.delivery.count.limit", "" + LIMIT));
        produce("limited", "0", "1", "2");
        try (KafkaShareConsumer<String, String> consumer = consumer("limited", "limited", 500)) {
            BiFunction<String, Integer, AcknowledgeType> verdict = (value, count) ->
                value.equals("1") ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
            List<String> seen = consume(consumer, 2 + LIMIT, verdict);
            produce("limited", "3");
            seen.addAll(consume(consumer, 1, verdict));
            return seen;
        }
    }

    /** The records of an aborted transaction, of a committed one, and one without transaction. */
    private List<String> transactions(String name, String isolation) throws Exception {
        prepare(name, Map.of("share.auto.offset.reset", "earliest",
            "share.isolation.level", isolation));
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap, "transactional.id", name);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(
                settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            for (String value : List.of("aborted", "committed")) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(name, 0, null, value + "-0"));
                producer.send(new ProducerRecord<>(name, 0, null, value + "-1"));
                producer.flush();
                if (value.equals("aborted")) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        produce(name, "last");
        int count = isolation.equals("read_committed") ? 3 : 5;
        try (KafkaShareConsumer<String, String> consumer = consumer(name, name, 500)) {
            return consume(consumer, count, (value, deliveries) -> AcknowledgeType.ACCEPT);
        }
    }

    /** A record that is two hours old, a new one, and one that follows the first fetch. */
    private List<String> reset(String strategy) throws Exception {
        String name = strategy.replace(":", "-");
        prepare(name, Map.of("share.auto.offset.reset", strategy));
        try (KafkaProducer<String, String> producer = producer()) {
            long now = System.currentTimeMillis();
            producer.send(new ProducerRecord<>(name, 0, now - 7_200_000, null, "old"));
            producer.flush();
            producer.send(new ProducerRecord<>(name, 0, now, null, "new"));
        }
        try (KafkaShareConsumer<String, String> consumer = consumer(name, name, 500)) {
            List<String> seen = new ArrayList<>();
            if (strategy.equals("latest")) {
                seen.addAll(awaitStart(consumer, name));
            }
            produce(name, "later");
            int count = strategy.equals("earliest") ? 3 : strategy.equals("latest") ? 1 : 2;
            seen.addAll(consume(consumer, count, (value, number) -> AcknowledgeType.ACCEPT));
            return seen;
        }
    }

    /** Records 0 accepted, 1 released, 2 rejected, 3 in flight when the broker is killed. */
    private List<String> restarted() throws Exception {
        prepare("restarted", Map.of("share.auto.offset.reset", "earliest"));
        produce("restarted", "0", "1", "2", "3");
        List<String> seen = new ArrayList<>();
        Map<String, AcknowledgeType> verdicts = Map.of("0", AcknowledgeType.ACCEPT,
            "1", AcknowledgeType.RELEASE, "2", AcknowledgeType.REJECT);
        try (KafkaShareConsumer<String, String> consumer = consumer("restarted", "restarted", 4)) {
            ConsumerRecords<String, String> records = pollSome(consumer);
            for (ConsumerRecord<String, String> record : records) {
                seen.add(text(record));
                if (!record.value().equals("3")) {
                    consumer.acknowledge(record, verdicts.get(record.value()));
                }
            }
            consumer.commitSync();
            System.out.println("restart");
            new BufferedReader(new InputStreamReader(System.in)).readLine();
        } catch (KafkaException lost) {
            seen.add("closing failed");
        }
        try (KafkaShareConsumer<String, String> next = consumer("restarted", "restarted", 500)) {
            List<String> again = consume(next, 2, (value, count) -> AcknowledgeType.ACCEPT);
            again.sort(null);
            seen.addAll(again);
        }
        return seen;
    }

    /** Produces records until one arrives: the first fetch decides where the group starts. */
    private List<String> awaitStart(KafkaShareConsumer<String, String> consumer, String topic) {
        List<String> seen = new ArrayList<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        String last = null;
        for (int sent = 0; last == null || !seen.contains(last); ) {
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("no records");
            }
            if (seen.isEmpty()) {
                last = "probe-" + sent++ + "x1";
                produce(topic, last.substring(0, last.length() - 2));
            }
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300))) {
                seen.add(text(record));
                consumer.acknowledge(record, AcknowledgeType.ACCEPT);
            }
            consumer.commitSync();
        }
        seen.removeIf(text -> text.startsWith("probe-"));
        return seen;
    }

    private void prepare(String name, Map<String, String> options) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get();
        List<AlterConfigOp> changes = new ArrayList<>();
        options.forEach((key, value) -> changes.add(
            new AlterConfigOp(new ConfigEntry(key, value), AlterConfigOp.OpType.SET)));
        admin.incrementalAlterConfigs(Map.of(
            new ConfigResource(ConfigResource.Type.GROUP, name), changes)).all().get();
    }

    private void produce(String topic, String... values) {
        try (KafkaProducer<String, String> producer = producer()) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, 0, null, value));
            }
        }
    }

    private KafkaProducer<String, String> producer() {
        return new KafkaProducer<>(Map.of("bootstrap.servers", bootstrap),
            new StringSerializer(), new StringSerializer());
    }

    private static ConsumerRecords<String, String> pollSome(
            KafkaShareConsumer<String, String> consumer) {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (System.currentTimeMillis() < end) {
            ConsumerRecords<String, String> records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                return records;
            }
        }
        throw new IllegalStateException("no records");
    }

    private static List<String> consume(KafkaShareConsumer<String, String> consumer, int count,
            BiFunction<String, Integer, AcknowledgeType> verdict) {
        List<String> seen = new ArrayList<>();
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (seen.size() < count && System.currentTimeMillis() < end) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                seen.add(text(record));
                int deliveries = record.deliveryCount().orElseThrow();
                consumer.acknowledge(record, verdict.apply(record.value(), deliveries));
            }
            consumer.commitSync();
        }
        return seen;
    }

    private static String text(ConsumerRecord<String, String> record) {
        return record.value() + "x" + record.deliveryCount().orElseThrow();
    }

    private KafkaShareConsumer<String, String> consumer(String group, String topic, int most) {
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(
            Map.of("bootstrap.servers", bootstrap, "group.id", group,
                "share.acknowledgement.mode", "explicit", "max.poll.records", "" + most,
                "reconnect.backoff.max.ms", "200"),
            new StringDeserializer(), new StringDeserializer());
        consumer.subscribe(List.of(topic));
        return consumer;
    }
}
