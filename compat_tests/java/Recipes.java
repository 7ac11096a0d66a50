import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.CommitFailedException;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.RebalanceInProgressException;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * The recipes of docs/how-to/test-with-faults.md for a Java client, which commits the faults over the control port:
 * Recipes BOOTSTRAP CONTROL_URL [RECIPE...]. Prints for each what came of it, behind its name.
 */
public class Recipes {
    interface Recipe {
        Object play(String name) throws Exception;
    }

    static final Duration POLL = Duration.ofMillis(200);
    static final long HOUR_MS = 3_600_000;
    static String bootstrap;
    static String control;
    static final HttpClient http = HttpClient.newHttpClient();

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        control = arguments[1];
        Map<String, Recipe> recipes = new LinkedHashMap<>();
        recipes.put("rebalance-during-commit", Recipes::rebalanceDuringCommit);
        recipes.put("expelled-before-commit", Recipes::expelledBeforeCommit);
        recipes.put("poison-record", Recipes::poisonRecord);
        recipes.put("producer-fenced", Recipes::producerFenced);
        recipes.put("lag", Recipes::lag);
        recipes.put("exactly-once", Recipes::exactlyOnce);
        recipes.put("late-timestamps", Recipes::lateTimestamps);
        recipes.put("schema-change", Recipes::schemaChange);
        recipes.put("slow-broker", Recipes::slowBroker);
        recipes.put("dead-letters", Recipes::deadLetters);
        recipes.put("lost-answer", Recipes::lostAnswer);
        recipes.put("too-large", name -> refused(name, "MESSAGE_TOO_LARGE"));
        recipes.put("not-authorized", name -> refused(name, "TOPIC_AUTHORIZATION_FAILED"));
        recipes.put("out-of-order", Recipes::outOfOrder);
        recipes.put("refused-connections", Recipes::refusedConnections);
        recipes.put("broker-restart", Recipes::brokerRestart);
        List<String> wanted = List.of(arguments).subList(2, arguments.length);
        recipes.forEach((name, recipe) -> {
            if (wanted.isEmpty() || wanted.contains(name)) {
                System.out.println(name + "\t" + outcome(name, recipe));
            }
        });
        // Without waiting for threads of the HTTP client.
        System.exit(0);
    }

    static Object outcome(String name, Recipe recipe) {
        try {
            ask("POST", "/topics", "{\"name\": \"" + name + "\"}");
            return recipe.play(name);
        } catch (Exception failure) {
            return "FAILED: " + failure;
        }
    }

    static Object rebalanceDuringCommit(String topic) throws Exception {
        seed(topic, "1", "2");
        try (KafkaConsumer<String, String> consumer = consumer(topic)) {
            consumer.subscribe(List.of(topic));
            read(consumer, 1);
            String rule = rule("fail", "OffsetCommit", "\"error\": \"REBALANCE_IN_PROGRESS\","
                + "\"group\": \"" + topic + "\", \"times\": 1");
            String outcome = commit(consumer);
            List<String> again = read(consumer, 1);
            return outcome + " " + again + " " + commit(consumer) + " hits " + hits(rule);
        }
    }

    static Object expelledBeforeCommit(String topic) throws Exception {
        seed(topic, "1");
        try (KafkaConsumer<String, String> consumer = consumer(topic)) {
            consumer.subscribe(List.of(topic));
            read(consumer, 1);
            ask("POST", "/expire-member", "{\"group\": \"" + topic + "\"}");
            String outcome = commit(consumer);
            return outcome + " " + read(consumer, 1) + " " + commit(consumer);
        }
    }

    static Object poisonRecord(String topic) throws Exception {
        seed(topic, "1", "{not a number", "2");
        List<Object> handled = new ArrayList<>();
        try (KafkaConsumer<String, String> consumer = consumer(topic)) {
            consumer.subscribe(List.of(topic));
            for (String value : read(consumer, 3)) {
                try {
                    handled.add(Integer.parseInt(value));
                } catch (NumberFormatException poison) {
                    handled.add("put aside");
                }
            }
            return handled + " " + commit(consumer) + " " + committed(consumer, topic);
        }
    }

    static Object producerFenced(String topic) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of("transactional.id", topic))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic, "1")).get();
            ask("POST", "/fence-producer", "{\"transactional_id\": \"" + topic + "\"}");
            return errorOf(producer::commitTransaction) + " " + errorOf(producer::beginTransaction);
        }
    }

    static Object lag(String topic) throws Exception {
        seed(topic, "1", "2", "3");
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer(topic); Admin admin = admin()) {
            consumer.assign(List.of(partition));
            read(consumer, 1);
            commit(consumer);
            long committed = admin.listConsumerGroupOffsets(topic)
                .partitionsToOffsetAndMetadata().get().get(partition).offset();
            return consumer.endOffsets(List.of(partition)).get(partition) - committed;
        }
    }

    static Object exactlyOnce(String topic) throws Exception {
        seed(topic, "a");
        ask("POST", "/topics", "{\"name\": \"" + topic + "-out\"}");
        try (KafkaConsumer<String, String> consumer = consumer(topic);
                KafkaProducer<String, String> producer =
                    producer(Map.of("transactional.id", topic))) {
            consumer.subscribe(List.of(topic));
            producer.initTransactions();
            String value = read(consumer, 1).get(0);
            String rule = rule("drop", "EndTxn", "\"applied\": true, \"times\": 1");
            producer.beginTransaction();
            producer.send(new ProducerRecord<>(topic + "-out", value.toUpperCase()));
            producer.sendOffsetsToTransaction(
                Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(1)),
                consumer.groupMetadata());
            producer.commitTransaction();
            return all(topic + "-out") + " " + committed(consumer, topic) + " hits " + hits(rule);
        }
    }

    static Object lateTimestamps(String topic) throws Exception {
        long now = System.currentTimeMillis();
        try (KafkaProducer<String, String> producer = producer(Map.of());
                KafkaConsumer<String, String> consumer = consumer(topic)) {
            producer.send(new ProducerRecord<>(topic, 0, now, null, "on time")).get();
            producer.send(new ProducerRecord<>(topic, 0, now - HOUR_MS, null, "late")).get();
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            long from = consumer.offsetsForTimes(Map.of(partition, now - 2 * HOUR_MS))
                .get(partition).offset();
            consumer.seek(partition, from);
            return read(consumer, 2);
        }
    }

    static Object schemaChange(String topic) throws Exception {
        seed(topic, "price=2;count=3", "total=7;currency=EUR");
        List<Integer> totals = new ArrayList<>();
        for (String order : all(topic)) {
            Matcher total = Pattern.compile("total=(\\d+)").matcher(order);
            Matcher parts = Pattern.compile("price=(\\d+);count=(\\d+)").matcher(order);
            totals.add(total.find() ? Integer.parseInt(total.group(1)) : parts.find()
                ? Integer.parseInt(parts.group(1)) * Integer.parseInt(parts.group(2)) : -1);
        }
        return totals;
    }

    static Object slowBroker(String topic) throws Exception {
        String rule = rule("delay", "Produce", "\"seconds\": 30, \"topic\": \"" + topic + "\"");
        try (KafkaProducer<String, String> producer = producer(Map.of(
                "delivery.timeout.ms", 600, "request.timeout.ms", 500))) {
            String outcome = errorOf(() -> producer.send(new ProducerRecord<>(topic, "1")).get());
            ask("DELETE", "/rules/" + rule, "{}");
            return outcome;
        }
    }

    static Object deadLetters(String topic) throws Exception {
        seed(topic, "1", "x", "2");
        String dead = topic + "-dead";
        ask("POST", "/topics", "{\"name\": \"" + dead + "\"}");
        String rule = rule("fail", "Produce", "\"error\": \"NOT_LEADER_OR_FOLLOWER\","
            + "\"topic\": \"" + dead + "\", \"times\": 1");
        try (KafkaConsumer<String, String> consumer = consumer(topic);
                KafkaProducer<String, String> producer = producer(Map.of())) {
            consumer.subscribe(List.of(topic));
            for (String value : read(consumer, 3)) {
                if (!value.matches("\\d+")) {
                    producer.send(new ProducerRecord<>(dead, value)).get();
                }
            }
            return all(dead) + " " + commit(consumer) + " hits " + hits(rule);
        }
    }

    static Object lostAnswer(String topic) throws Exception {
        String rule = rule("drop", "Produce",
            "\"applied\": true, \"times\": 1, \"topic\": \"" + topic + "\"");
        seed(topic, "1");
        return all(topic) + " hits " + hits(rule);
    }

    static Object refused(String topic, String error) throws Exception {
        String rule = rule("fail", "Produce", "\"error\": \"" + error + "\","
            + "\"topic\": \"" + topic + "\", \"times\": 1");
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            String outcome = errorOf(() -> producer.send(new ProducerRecord<>(topic, "1")).get());
            producer.send(new ProducerRecord<>(topic, "2")).get();
            return outcome + " " + all(topic) + " hits " + hits(rule);
        }
    }

    static Object outOfOrder(String topic) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "1")).get();
            String rule = rule("fail", "Produce", "\"error\": \"OUT_OF_ORDER_SEQUENCE_NUMBER\","
                + "\"topic\": \"" + topic + "\", \"times\": 1");
            String outcome = errorOf(() -> producer.send(new ProducerRecord<>(topic, "2")).get());
            return outcome + " " + all(topic) + " hits " + hits(rule);
        }
    }

    static Object refusedConnections(String topic) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "1")).get();
            String rule = rule("refuse_connections", null, null);
            Future<RecordMetadata> sending = sendLater(producer, topic, "2");
            ask("DELETE", "/rules/" + rule, "{}");
            sending.get();
            return all(topic);
        }
    }

    static Object brokerRestart(String topic) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            producer.send(new ProducerRecord<>(topic, "before")).get();
            ask("POST", "/crash", "{}");
            Future<RecordMetadata> sending = sendLater(producer, topic, "meanwhile");
            ask("POST", "/restart", "{}");
            sending.get();
            return all(topic);
        }
    }

    // What the recipes are made of.

    interface Step {
        void take() throws Exception;
    }

    static String errorOf(Step step) {
        try {
            step.take();
            return "ok";
        } catch (ExecutionException failure) {
            return failure.getCause().getClass().getSimpleName();
        } catch (Exception failure) {
            return failure.getClass().getSimpleName();
        }
    }

    static String commit(KafkaConsumer<String, String> consumer) {
        try {
            consumer.commitSync();
            return "committed";
        } catch (CommitFailedException | RebalanceInProgressException failure) {
            return failure.getClass().getSimpleName();
        }
    }

    static long committed(KafkaConsumer<String, String> consumer, String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        return consumer.committed(java.util.Set.of(partition)).get(partition).offset();
    }

    /** Sends from another thread: without a broker to ask, send itself may wait for metadata. */
    static Future<RecordMetadata> sendLater(
            KafkaProducer<String, String> producer, String topic, String value) {
        return CompletableFuture.supplyAsync(() -> {
            try {
                return producer.send(new ProducerRecord<>(topic, value)).get();
            } catch (Exception failure) {
                throw new CompletionException(failure);
            }
        });
    }

    static void seed(String topic, String... values) throws Exception {
        try (KafkaProducer<String, String> producer = producer(Map.of())) {
            for (String value : values) {
                producer.send(new ProducerRecord<>(topic, value)).get();
            }
        }
    }

    /** So many records, and none that came with them. */
    static List<String> read(KafkaConsumer<String, String> consumer, int count) {
        List<String> values = new ArrayList<>();
        long deadline = System.nanoTime() + Duration.ofSeconds(30).toNanos();
        while (values.size() < count && System.nanoTime() < deadline) {
            for (ConsumerRecord<String, String> each : consumer.poll(POLL)) {
                values.add(each.value());
            }
        }
        return values;
    }

    /** All committed records there are. */
    static List<String> all(String topic) {
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<String, String> consumer = consumer("reader-of-" + topic)) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            long end = consumer.endOffsets(List.of(partition)).get(partition);
            List<String> values = new ArrayList<>();
            while (consumer.position(partition) < end) {
                consumer.poll(POLL).forEach(each -> values.add(each.value()));
            }
            return values;
        }
    }

    static KafkaConsumer<String, String> consumer(String group) {
        return new KafkaConsumer<>(Map.of(
            "bootstrap.servers", bootstrap, "group.id", group, "auto.offset.reset", "earliest",
            "enable.auto.commit", false, "max.poll.records", 1, "heartbeat.interval.ms", 100,
            "retry.backoff.ms", 10, "isolation.level", "read_committed"),
            new StringDeserializer(), new StringDeserializer());
    }

    static KafkaProducer<String, String> producer(Map<String, Object> more) {
        Map<String, Object> settings = new LinkedHashMap<>(Map.of(
            "bootstrap.servers", bootstrap, "retry.backoff.ms", 10, "linger.ms", 0,
            "reconnect.backoff.ms", 10, "reconnect.backoff.max.ms", 50));
        settings.putAll(more);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static Admin admin() {
        return Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    /** Puts a rule in force; its number. */
    static String rule(String kind, String api, String rest) throws Exception {
        String about = api == null ? "" : ", \"api\": \"" + api + "\", " + rest;
        return number(ask("POST", "/rules", "{\"kind\": \"" + kind + "\"" + about + "}"), "id");
    }

    static String hits(String rule) throws Exception {
        return number(ask("DELETE", "/rules/" + rule, "{}"), "hits");
    }

    static String number(String json, String key) {
        Matcher found = Pattern.compile("\"" + key + "\": (\\d+)").matcher(json);
        if (!found.find()) {
            throw new IllegalStateException(json);
        }
        return found.group(1);
    }

    static String ask(String method, String path, String json) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create(control + path))
            .method(method, HttpRequest.BodyPublishers.ofString(json)).build();
        HttpResponse<String> answer = http.send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() != 200) {
            throw new IllegalStateException(method + " " + path + ": " + answer.body());
        }
        return answer.body();
    }
}
