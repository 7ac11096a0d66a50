import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.CachedSchemaRegistryClient;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.SchemaMetadata;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.RestService;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.Config;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.entities.SchemaReference;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.client.rest.exceptions.RestClientException;

/** Confluent's Java client, as Apache Flink ships it, against a registry: URL [USER PASSWORD]. */
public class RegistryClient {
    private static Map<String, Object> settings;
    private static String url;

    public static void main(String[] arguments) throws Exception {
        url = arguments[0];
        settings = new HashMap<>();
        if (arguments.length > 1) {
            settings.put("basic.auth.credentials.source", "USER_INFO");
            settings.put("basic.auth.user.info", arguments[1] + ":" + arguments[2]);
        }
        api();
        System.out.println("ok api");
        references();
        System.out.println("ok references");
        levels();
        System.out.println("ok levels");
        modes();
        System.out.println("ok modes");
        deletes();
        System.out.println("ok deletes");
    }

    private static CachedSchemaRegistryClient connect() {
        return new CachedSchemaRegistryClient(List.of(url), 100, settings);
    }

    private static RestService rest() {
        RestService service = new RestService(List.of(url));
        service.configure(settings);
        return service;
    }

    private static AvroSchema record(String name, String... fields) {
        return new AvroSchema(String.format(
            "{\"type\":\"record\",\"name\":\"%s\",\"namespace\":\"java\",\"fields\":[%s]}",
            name, String.join(",", fields)));
    }

    private static String field(String name, String type) {
        return String.format("{\"name\":\"%s\",\"type\":%s}", name, type);
    }

    private static void api() throws Exception {
        String subject = "java-api-value";
        CachedSchemaRegistryClient client = connect();
        AvroSchema first = record("Order", field("id", "\"long\""));
        AvroSchema second = record("Order", field("id", "\"long\""),
            "{\"name\":\"note\",\"type\":\"string\",\"default\":\"\"}");
        AvroSchema broken = record("Order", field("id", "\"boolean\""));
        int id = client.register(subject, first);
        equal(connect().register(subject, first), id);
        equal(client.registerWithResponse(subject, first, false).getId(), id);
        equal(connect().getSchemaById(id), first);
        equal(connect().getSchemaBySubjectAndId(subject, id).canonicalString(), first.canonicalString());
        equal(client.testCompatibility(subject, second), true);
        equal(client.testCompatibility(subject, broken), false);
        List<String> messages = client.testCompatibilityVerbose(subject, broken);
        List<String> own = broken.isBackwardCompatible(first);
        for (int at = 0; at < own.size(); at++) {
            equal(messages.get(at), String.format(own.get(at), "new", "old"));
        }
        refused(409, 409, () -> connect().register(subject, broken));
        int newer = client.register(subject, second);
        equal(client.getAllVersions(subject), Arrays.asList(1, 2));
        SchemaMetadata latest = connect().getLatestSchemaMetadata(subject);
        equal(latest.getId(), newer);
        equal(latest.getVersion(), 2);
        equal(latest.getSchema(), second.canonicalString());
        equal(latest.getSchemaType(), "AVRO");
        equal(connect().getSchemaMetadata(subject, 1).getId(), id);
        equal(connect().getVersion(subject, second), 2);
        equal(connect().getId(subject, first), id);
        equal(connect().getAllSubjectsById(id).contains(subject), true);
        equal(connect().getAllVersionsById(newer).iterator().next().getVersion(), 2);
        equal(connect().getAllSubjects().contains(subject), true);
        equal(Set.copyOf(connect().getAllSubjectsByPrefix("java-api")), Set.of(subject));
        equal(connect().getSchemas(subject, false, true).size(), 1);
        equal(rest().getSchemaTypes().contains("PROTOBUF"), true);
        equal(rest().getAllContexts().contains("."), true);
        refused(404, 40403, () -> connect().getSchemaById(999_999));
        refused(404, 40401, () -> connect().getLatestSchemaMetadata("java-nothing"));
        refused(404, 40402, () -> connect().getSchemaMetadata(subject, 9));
        refused(404, 40401, () -> connect().getId("java-nothing", first));
        refused(422, 42201, () -> rest().registerSchema("{", "java-bad"));
    }

    private static void references() throws Exception {
        AvroSchema item = record("Item", field("sku", "\"string\""));
        connect().register("java-item", item);
        List<SchemaReference> references = List.of(new SchemaReference("java.Item", "java-item", 1));
        AvroSchema basket = new AvroSchema(
            "{\"type\":\"record\",\"name\":\"Basket\",\"namespace\":\"java\",\"fields\":["
                + field("item", "\"java.Item\"") + "]}",
            references, Map.of("java.Item", item.canonicalString()), null);
        int id = connect().register("java-basket-value", basket);
        AvroSchema found = (AvroSchema) connect().getSchemaById(id);
        equal(found.rawSchema().getField("item").schema().getFullName(), "java.Item");
        equal(rest().getReferencedBy("java-item", 1), List.of(id));
        refused(422, 42206, () -> connect().deleteSchemaVersion("java-item", "1"));
    }

    private static void levels() throws Exception {
        String subject = "java-levels-value";
        CachedSchemaRegistryClient client = connect();
        equal(client.getCompatibility(null), "BACKWARD");
        client.register(subject, record("Level", field("id", "\"long\"")));
        refused(404, 40408, () -> connect().getCompatibility(subject));
        equal(client.updateCompatibility(subject, "FORWARD"), "FORWARD");
        equal(connect().getCompatibility(subject), "FORWARD");
        client.register(subject, record("Level", field("id", "\"long\""), field("more", "\"int\"")));
        refused(409, 409, () -> client.register(subject, record("Level")));
        Config config = new Config("NONE");
        config.setNormalize(true);
        client.updateConfig(subject, config);
        equal(connect().getConfig(subject).isNormalize(), true);
        client.register(subject, record("Level", field("id", "\"string\"")));
        refused(422, 42203, () -> client.updateCompatibility(subject, "SOMETIMES"));
        client.deleteConfig(subject);
        refused(404, 40408, () -> connect().getConfig(subject));
    }

    private static void modes() throws Exception {
        String subject = "java-import-value";
        CachedSchemaRegistryClient client = connect();
        equal(client.getMode(), "READWRITE");
        equal(client.setMode("READONLY", subject), "READONLY");
        AvroSchema imported = record("Imported", field("id", "\"long\""));
        refused(422, 42205, () -> connect().register(subject, imported));
        equal(client.setMode("IMPORT", subject, true), "IMPORT");
        equal(client.register(subject, imported, 7, 40_000), 40_000);
        equal(connect().getSchemaMetadata(subject, 7).getId(), 40_000);
        client.deleteMode(subject);
        refused(404, 40409, () -> connect().getMode(subject));
        refused(422, 42204, () -> client.setMode("SOMETIMES", subject));
    }

    private static void deletes() throws Exception {
        String subject = "java-deletes-value";
        CachedSchemaRegistryClient client = connect();
        AvroSchema first = record("Gone", field("id", "\"long\""));
        AvroSchema second = record("Gone", field("id", "\"long\""),
            "{\"name\":\"note\",\"type\":\"string\",\"default\":\"\"}");
        int id = client.register(subject, first);
        client.register(subject, second);
        equal(client.deleteSchemaVersion(subject, "1"), 1);
        refused(404, 40406, () -> rest().deleteSchemaVersion(Map.of(), subject, "1"));
        refused(404, 40402, () -> connect().getSchemaMetadata(subject, 1));
        equal(connect().getSchemaMetadata(subject, 1, true).getId(), id);
        equal(connect().getAllVersions(subject, true), Arrays.asList(1, 2));
        refused(404, 40407, () -> connect().deleteSchemaVersion(subject, "2", true));
        equal(connect().getSchemaById(id), first);
        equal(client.deleteSubject(subject), List.of(2));
        refused(404, 40404, () -> connect().deleteSubject(subject));
        refused(404, 40401, () -> connect().getAllVersions(subject));
        int again = connect().register(subject, first);
        equal(again, id);
        equal(connect().getAllVersions(subject), List.of(3));
        equal(client.deleteSubject(subject), List.of(3));
        equal(connect().deleteSubject(subject, true), Arrays.asList(1, 2, 3));
        equal(connect().getAllSubjects(true).contains(subject), false);
    }

    private static void equal(Object found, Object expected) {
        if (!expected.equals(found)) {
            throw new AssertionError(found + " is not " + expected);
        }
    }

    private static void refused(int status, int code, Callable<?> call) throws Exception {
        Object found;
        try {
            found = call.call();
        } catch (RestClientException error) {
            equal(List.of(error.getStatus(), error.getErrorCode()), List.of(status, code));
            return;
        }
        throw new AssertionError("not refused: " + found);
    }
}
