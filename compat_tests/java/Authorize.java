import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.acl.AclPermissionType;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.metrics.internals.PluginMetricsImpl;
import org.apache.kafka.common.resource.PatternType;
import org.apache.kafka.common.resource.ResourcePattern;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.auth.SecurityProtocol;
import org.apache.kafka.metadata.authorizer.StandardAcl;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.Action;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.LoggerConfig;
import org.apache.logging.log4j.core.config.Property;

/**
 * Asks Kafka's own authorizer. Lines of fields separated by tabs:
 * "policy", super users, allow.everyone.if.no.acl.found: start anew;
 * "acl" and its seven fields; "ask", principal, host, operation, type, name, references;
 * "some", principal, host, operation, type. A question is answered by one line: the result, and
 * what the audit log has about it.
 */
public class Authorize {
    static String audited = "";

    static class Audit extends AbstractAppender {
        Audit() {
            super("audit", null, null, true, Property.EMPTY_ARRAY);
        }

        @Override
        public void append(LogEvent event) {
            audited = event.getLevel() + " " + event.getMessage().getFormattedMessage();
        }
    }

    record Context(KafkaPrincipal principal, InetAddress clientAddress)
            implements AuthorizableRequestContext {
        public String listenerName() { return "SASL_PLAINTEXT"; }
        public SecurityProtocol securityProtocol() { return SecurityProtocol.SASL_PLAINTEXT; }
        public int requestType() { return 0; }
        public int requestVersion() { return 13; }
        public String clientId() { return "client"; }
        public int correlationId() { return 1; }
    }

    public static void main(String[] arguments) throws Exception {
        listen();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        PrintStream out = new PrintStream(System.out, false, "UTF-8");
        StandardAuthorizer authorizer = null;
        Map<Uuid, StandardAcl> acls = new LinkedHashMap<>();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] field = line.split("\t", -1);
            switch (field[0]) {
                case "policy" -> {
                    authorizer = new StandardAuthorizer();
                    Map<String, Object> config = new HashMap<>();
                    config.put("node.id", "1");
                    config.put("super.users", field[1]);
                    config.put("allow.everyone.if.no.acl.found", field[2]);
                    authorizer.configure(config);
                    authorizer.withPluginMetrics(new PluginMetricsImpl(new Metrics(), Map.of()));
                    authorizer.completeInitialLoad();
                    acls.clear();
                }
                case "acl" -> acls.put(Uuid.randomUuid(), new StandardAcl(
                    ResourceType.fromCode(Byte.parseByte(field[1])), field[2],
                    PatternType.fromCode(Byte.parseByte(field[3])), field[4], field[5],
                    AclOperation.fromCode(Byte.parseByte(field[6])),
                    AclPermissionType.fromCode(Byte.parseByte(field[7]))));
                case "load" -> authorizer.loadSnapshot(acls);
                case "ask" -> {
                    ResourcePattern resource = new ResourcePattern(
                        ResourceType.fromCode(Byte.parseByte(field[4])), field[5],
                        PatternType.LITERAL);
                    Action action = new Action(AclOperation.fromCode(Byte.parseByte(field[3])),
                        resource, Integer.parseInt(field[6]), true, true);
                    out.println(authorizer.authorize(context(field), List.of(action)).get(0)
                        + "\t" + audited);
                }
                case "some" -> out.println(authorizer.authorizeByResourceType(context(field),
                    AclOperation.fromCode(Byte.parseByte(field[3])),
                    ResourceType.fromCode(Byte.parseByte(field[4]))) + "\t");
                case "flush" -> out.flush();
                default -> throw new IllegalArgumentException(line);
            }
        }
    }

    static Context context(String[] field) throws Exception {
        String[] principal = field[1].split(":", 2);
        return new Context(new KafkaPrincipal(principal[0], principal[1]),
            InetAddress.getByName(field[2]));
    }

    static void listen() {
        LoggerContext context = (LoggerContext) LogManager.getContext(
            StandardAuthorizer.class.getClassLoader(), false);
        Audit audit = new Audit();
        audit.start();
        LoggerConfig logger = new LoggerConfig("kafka.authorizer.logger", Level.DEBUG, false);
        logger.addAppender(audit, Level.DEBUG, null);
        context.getConfiguration().addLogger("kafka.authorizer.logger", logger);
        context.updateLoggers();
    }
}
