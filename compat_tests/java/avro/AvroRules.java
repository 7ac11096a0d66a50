import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.Set;
import org.apache.avro.Schema;
import org.apache.avro.SchemaCompatibility;
import org.apache.avro.SchemaCompatibility.Incompatibility;

/**
 * Reads a JSON line {"reader", "writer", "references"} each, and answers with a JSON line: the
 * canonical text or the error of each schema, and why the reader cannot read the writer's data.
 */
public class AvroRules {
    private static final ObjectMapper JSON = new ObjectMapper();

    private record Parsed(Schema schema, String canonical, String error) {}

    public static void main(String[] args) throws Exception {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(JSON.readTree(line)));
        }
        out.flush();
    }

    private static ObjectNode answer(JsonNode question) {
        ObjectNode answer = JSON.createObjectNode();
        boolean checkDefaults = question.path("check_defaults").asBoolean(true);
        Parsed reader = parsed(question.get("reader"), question.get("references"), checkDefaults);
        put(answer, "reader", reader);
        if (!question.has("writer")) {
            return answer;
        }
        Parsed writer = parsed(question.get("writer"), question.get("references"), checkDefaults);
        put(answer, "writer", writer);
        if (reader.schema != null && writer.schema != null) {
            ArrayNode found = answer.putArray("incompatibilities");
            for (Incompatibility each : SchemaCompatibility
                    .checkReaderWriterCompatibility(reader.schema, writer.schema)
                    .getResult().getIncompatibilities()) {
                found.addArray().add(each.getType().name()).add(each.getLocation())
                    .add(each.getMessage());
            }
        }
        return answer;
    }

    private static void put(ObjectNode answer, String name, Parsed parsed) {
        answer.put(name + "_canonical", parsed.canonical);
        answer.put(name + "_error", parsed.error);
    }

    private static Parsed parsed(JsonNode text, JsonNode references, boolean checkDefaults) {
        try {
            Schema.Parser parser = new Schema.Parser();
            parser.setValidateDefaults(checkDefaults);
            Set<Schema> referenced = new LinkedHashSet<>();
            if (references != null) {
                for (JsonNode each : references) {
                    referenced.add(parser.parse(each.asText()));
                }
            }
            Schema schema = parser.parse(text.asText());
            return new Parsed(schema, schema.toString(new HashSet<>(referenced), false), null);
        } catch (Exception | StackOverflowError error) {
            return new Parsed(null, null, error.getClass().getSimpleName() + ": " + error.getMessage());
        }
    }
}
