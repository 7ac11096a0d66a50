import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.raft.QuorumConfig;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Whether Kafka starts with a set of properties: a JSON object in, a line out.
 *
 * The first line of the output lists Kafka's options: name, type, default and validator.
 */
public class StartSettings {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        // Kafka logs to the standard output.
        System.setOut(System.err);
        out.println(JSON.writeValueAsString(options()));
        BufferedReader in = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(verdict(JSON.readValue(line, Map.class)).replaceAll("\\s+", " "));
        }
    }

    private static List<Map<String, String>> options() {
        List<Map<String, String>> found = new ArrayList<>();
        for (ConfigDef.ConfigKey key : KafkaConfig.configDef().configKeys().values()) {
            Map<String, String> option = new HashMap<>();
            option.put("name", key.name);
            option.put("type", key.type.name());
            option.put("default", key.hasDefault() && key.defaultValue != null
                ? ConfigDef.convertToString(key.defaultValue, key.type) : null);
            option.put("validator", key.validator == null ? "" : key.validator.toString());
            found.add(option);
        }
        return found;
    }

    /** "accepted", or the reason of the refusal. */
    private static String verdict(Map<?, ?> properties) {
        try {
            KafkaConfig config = new KafkaConfig(properties, false);
            // The checks of the parts of a node that its constructor calls.
            QuorumConfig.parseVoterConnections(config.quorumConfig().voters());
            LogConfig.validateBrokerLogConfigValues(config.extractLogConfigMap(),
                config.remoteLogManagerConfig().isRemoteStorageSystemEnabled());
            return "accepted";
        } catch (Exception refusal) {
            return "refused " + refusal;
        } catch (NoClassDefFoundError missing) {
            return "refused " + missing;
        }
    }
}
