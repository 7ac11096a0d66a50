import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HexFormat;
import javax.security.auth.x500.X500Principal;
import org.apache.kafka.common.security.ssl.SslPrincipalMapper;

/** Reads "name HEX" or "rule RULES NAME" (base64) a line, and answers with a base64 line each. */
public class Principals {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ", -1);
            System.out.println(answer(words));
            System.out.flush();
        }
    }

    private static String answer(String[] words) {
        try {
            if (words[0].equals("name")) {
                return "= " + encoded(new X500Principal(HexFormat.of().parseHex(words[1])).getName());
            }
            SslPrincipalMapper mapper = SslPrincipalMapper.fromRules(decoded(words[1]));
            return "= " + encoded(mapper.getName(decoded(words[2])));
        } catch (Exception error) {
            return "! " + error.getClass().getSimpleName();
        }
    }

    private static String encoded(String text) {
        return Base64.getEncoder().encodeToString(text.getBytes(StandardCharsets.UTF_8));
    }

    private static String decoded(String text) {
        return new String(Base64.getDecoder().decode(text), StandardCharsets.UTF_8);
    }
}
