import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools one after the other in this JVM, one per line of standard input.
 *
 * A line has the tool's standard input, its main class and its arguments, each in Base64, separated
 * by tabs. Answers "STATUS OUTPUT ERRORS" in a line, also separated by tabs and in Base64. A tool's
 * shutdown hooks run when it has ended.
 */
public class Tools {
    private static class Exited extends RuntimeException {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static final List<Runnable> hooks = new ArrayList<>();
    private static Integer first;

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = System.out;
        Exit.Procedure exit = (status, message) -> {
            // Some tools catch what is thrown here, and exit again.
            first = first == null ? status : first;
            throw new Exited();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] fields = line.split("\t", -1);
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(fields[0])));
            System.setOut(new PrintStream(output, true));
            System.setErr(new PrintStream(errors, true));
            String[] words = new String[fields.length - 2];
            for (int number = 0; number < words.length; number++) {
                words[number] = decoded(fields[number + 2]);
            }
            int status = run(decoded(fields[1]), words);
            answers.println(status + "\t" + encoded(output) + "\t" + encoded(errors));
            answers.flush();
        }
    }

    private static int run(String main, String[] arguments) throws Exception {
        first = null;
        try {
            Class.forName(main).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exited) {
                return first;
            }
            e.getCause().printStackTrace();
            return 1;
        } finally {
            hooks.forEach(Runnable::run);
            hooks.clear();
            System.out.flush();
        }
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String encoded(ByteArrayOutputStream text) {
        return Base64.getEncoder().encodeToString(text.toByteArray());
    }
}
