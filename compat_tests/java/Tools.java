import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Base64;

import org.apache.kafka.common.utils.internals.Exit;

/**
 * Runs Kafka's command-line tools one after the other in this JVM, one per line of standard input.
 *
 * A line has the main class and its arguments, separated by tabs. Answers "STATUS OUTPUT ERRORS"
 * in a line, also separated by tabs; the two texts are in Base64.
 */
public class Tools {
    private static class Exited extends RuntimeException {
        Exited() {
            super(null, null, false, false);
        }
    }

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
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            ByteArrayOutputStream output = new ByteArrayOutputStream();
            ByteArrayOutputStream errors = new ByteArrayOutputStream();
            System.setOut(new PrintStream(output, true));
            System.setErr(new PrintStream(errors, true));
            int status = run(line.split("\t"));
            answers.println(status + "\t" + encoded(output) + "\t" + encoded(errors));
            answers.flush();
        }
    }

    private static int run(String[] words) throws Exception {
        first = null;
        try {
            String[] arguments = Arrays.copyOfRange(words, 1, words.length);
            Class.forName(words[0]).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof Exited) {
                return first;
            }
            e.getCause().printStackTrace();
            return 1;
        }
    }

    private static String encoded(ByteArrayOutputStream text) {
        return Base64.getEncoder().encodeToString(text.toString().getBytes(StandardCharsets.UTF_8));
    }
}
