import java.lang.management.ManagementFactory;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import java.util.TreeSet;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;

/**
 * Runs a broker, and writes the attributes of all MBeans that it has had to a file, whenever that
 * file does not exist.
 */
public class KafkaBeans {
    private static final Set<ObjectName> seen = new HashSet<>();
    private static final Set<String> lines = new TreeSet<>();

    public static void main(String[] arguments) {
        Path path = Path.of(arguments[0]);
        Thread watcher = new Thread(() -> watch(path));
        watcher.setDaemon(true);
        watcher.start();
        kafka.Kafka.main(new String[] {arguments[1]});
    }

    private static void watch(Path path) {
        try {
            while (true) {
                look();
                if (!Files.exists(path)) {
                    Path unfinished = Path.of(path + ".part");
                    Files.write(unfinished, lines);
                    Files.move(unfinished, path);
                }
                Thread.sleep(50);
            }
        } catch (Exception error) {
            error.printStackTrace();
        }
    }

    private static void look() throws Exception {
        MBeanServer server = ManagementFactory.getPlatformMBeanServer();
        for (ObjectName name : server.queryNames(new ObjectName("kafka*:*"), null)) {
            try {
                // Kafka's own beans get their attributes one by one.
                if (name.getKeyProperty("name") != null && !seen.add(name)) {
                    continue;
                }
                for (MBeanAttributeInfo each : server.getMBeanInfo(name).getAttributes()) {
                    lines.add(name + "\t" + each.getName());
                }
            } catch (JMException gone) {
                seen.remove(name);
            }
        }
    }
}
