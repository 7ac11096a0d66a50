import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import org.apache.flink.avro.registry.confluent.shaded.io.confluent.kafka.schemaregistry.avro.AvroSchema;

/**
 * Confluent's verdicts on pairs of Avro schemas: reader and writer on each line, in base64. The
 * answer is the reader's canonical string, its normal form, and the messages, in base64 as well.
 */
public class AvroVerdicts {
    public static void main(String[] arguments) throws Exception {
        BufferedReader lines =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.US_ASCII);
        String line;
        while ((line = lines.readLine()) != null) {
            String[] texts = line.split(" ");
            out.println(answer(decoded(texts[0]), decoded(texts[1])));
        }
        out.flush();
    }

    private static String answer(String readerText, String writerText) {
        AvroSchema reader;
        AvroSchema writer;
        try {
            reader = parsed(readerText);
            writer = parsed(writerText);
        } catch (RuntimeException error) {
            return "refused";
        }
        List<String> messages = reader.isBackwardCompatible(writer);
        StringBuilder answer = new StringBuilder();
        answer.append(encoded(reader.canonicalString()));
        answer.append(' ').append(encoded(reader.normalize().canonicalString()));
        for (String message : messages) {
            answer.append(' ').append(encoded(message));
        }
        return answer.toString();
    }

    private static AvroSchema parsed(String text) {
        return new AvroSchema(text, List.of(), Map.of(), null, true);
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }
}
