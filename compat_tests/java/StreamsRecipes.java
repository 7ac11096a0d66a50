import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.StreamsGroupDescription;
import org.apache.kafka.clients.admin.StreamsGroupMemberDescription;
import org.apache.kafka.clients.admin.StreamsGroupSubtopologyDescription;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.state.Stores;

/**
 * The recipes of docs/how-to/test-with-faults.md for a Kafka Streams application in the same process, which sets
 * faults over the control port: StreamsRecipes BOOTSTRAP CONTROL_URL. Prints for each what came of
 * it, behind its name, which is also the name of its group and topics.
 */
public class StreamsRecipes {
    interface Recipe {
        Object play(String name) throws Exception;
    }

    static final long PATIENCE_MS = 60_000;
    static String bootstrap;
    static String control;
    static Admin admin;
    static final HttpClient http = HttpClient.newHttpClient();

    public static void main(String[] arguments) {
        bootstrap = arguments[0];
        control = arguments[1];
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
        Map<String, Recipe> recipes = new LinkedHashMap<>();
        recipes.put("instance-expelled", StreamsRecipes::instanceExpelled);
        recipes.put("tasks-held-back", StreamsRecipes::tasksHeldBack);
        recipes.put("topology-inspected", StreamsRecipes::topologyInspected);
        recipes.forEach((name, recipe) -> System.out.println(name + "\t" + outcome(name, recipe)));
        // Without waiting for threads of the HTTP client.
        System.exit(0);
    }

    static Object outcome(String name, Recipe recipe) {
        try {
            for (String topic : List.of(name, name + "-totals")) {
                ask("POST", "/topics", "{\"name\": \"" + topic + "\", \"partitions\": 2}");
            }
            return recipe.play(name);
        } catch (Exception failure) {
            return "FAILED: " + failure + " at " + failure.getStackTrace()[1];
        }
    }

    static Object instanceExpelled(String name) throws Exception {
        order(name);
        try (KafkaStreams streams = started(name)) {
            await(() -> streams.state() == KafkaStreams.State.RUNNING);
            // What was not committed would be counted twice.
            await(() -> ask("GET", "/committed?group=" + name, "{}").contains("\"offset\": 1"));
            int epoch = group(name).groupEpoch();
            ask("POST", "/expire-member", "{\"group\": \"" + name + "\"}");
            order(name);
            await(() -> totals(name).equals(List.of("1", "2")));
            return totals(name) + (group(name).groupEpoch() > epoch ? " joined again" : "");
        }
    }

    static Object tasksHeldBack(String name) throws Exception {
        try (KafkaStreams old = started(name)) {
            await(() -> tasks(name).equals(List.of(2)));
            String answer = ask(
                "POST", "/rules", "{\"kind\": \"hold_assignment\", \"group\": \"" + name + "\"}");
            Matcher id = Pattern.compile("\"id\": (\\d+)").matcher(answer);
            id.find();
            try (KafkaStreams added = started(name)) {
                await(() -> tasks(name).size() == 2);
                Object held = group(name).groupState() + " " + tasks(name);
                ask("DELETE", "/rules/" + id.group(1), "{}");
                await(() -> tasks(name).equals(List.of(1, 1)));
                order(name);
                await(() -> totals(name).equals(List.of("1")));
                return held + " " + tasks(name);
            }
        }
    }

    static Object topologyInspected(String name) throws Exception {
        order(name);
        try (KafkaStreams streams = started(name)) {
            await(() -> totals(name).equals(List.of("1")));
            StreamsGroupDescription group = group(name);
            List<Object> found = new ArrayList<>(List.of(group.groupState()));
            for (StreamsGroupSubtopologyDescription each : group.subtopologies()) {
                found.add(each.subtopologyId() + " reads " + each.sourceTopics());
            }
            Set<String> internal = new TreeSet<>(admin.listTopics().names().get());
            internal.removeIf(topic -> !topic.startsWith(name + "-counts"));
            return found + " " + internal;
        }
    }

    // The application

    static KafkaStreams started(String name) throws Exception {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, bootstrap);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, name);
        settings.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, "streams");
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        String state = Files.createTempDirectory(name).toString();
        settings.put(StreamsConfig.STATE_DIR_CONFIG, state);
        StreamsBuilder builder = new StreamsBuilder();
        builder.stream(name, Consumed.with(Serdes.String(), Serdes.String()))
            .groupByKey(Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.<String, Long>as(Stores.inMemoryKeyValueStore("counts"))
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.Long()))
            .toStream()
            .mapValues(count -> Long.toString(count))
            .to(name + "-totals", Produced.with(Serdes.String(), Serdes.String()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(
            failure -> StreamThreadExceptionResponse.REPLACE_THREAD);
        streams.start();
        return streams;
    }

    // What the broker holds

    static void order(String topic) throws Exception {
        ask("POST", "/records", "{\"topic\": \"" + topic + "\", \"records\": [[\"a\", \"x\"]]}");
    }

    static List<String> totals(String name) throws Exception {
        String records = ask("GET", "/records?topic=" + name + "-totals", "{}");
        Matcher value = Pattern.compile("\"value\": \"(\\d+)\"").matcher(records);
        List<String> found = new ArrayList<>();
        while (value.find()) {
            found.add(value.group(1));
        }
        return found;
    }

    static StreamsGroupDescription group(String name) throws Exception {
        return admin.describeStreamsGroups(List.of(name)).describedGroups().get(name).get();
    }

    /** How many active tasks each instance has. */
    static List<Integer> tasks(String name) throws Exception {
        List<Integer> counts = new ArrayList<>();
        for (StreamsGroupMemberDescription member : group(name).members()) {
            counts.add(member.assignment().activeTasks().stream()
                .mapToInt(each -> each.partitions().size()).sum());
        }
        counts.sort(null);
        return counts;
    }

    // Waiting and asking

    static void await(Callable<Boolean> condition) throws Exception {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        Object last = false;
        while (System.currentTimeMillis() < deadline) {
            try {
                last = condition.call();
            } catch (Exception failure) {
                // The group does not exist before its first member has joined.
                last = failure;
            }
            if (Boolean.TRUE.equals(last)) {
                return;
            }
            Thread.sleep(50);
        }
        throw new IllegalStateException("not within a minute; at last: " + last);
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
