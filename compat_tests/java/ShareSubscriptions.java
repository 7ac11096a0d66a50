import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.coordinator.group.modern.share.ShareGroup;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupMember;
import org.apache.kafka.timeline.SnapshotRegistry;

/**
 * Has a share group of Kafka count its members' subscriptions, one change after the other.
 *
 * Lines: "group" for a new one, "subscribe ID TOPIC,..." as a heartbeat lists them, "leave ID".
 * Answers "next TOPIC,..." as computed with the heartbeat, "then TOPIC,..." as counted once the
 * member's record was applied, and "end".
 */
public class ShareSubscriptions {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        ShareGroup group = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("group")) {
                group = new ShareGroup(new SnapshotRegistry(new LogContext()), "group");
                continue;
            }
            if (words[0].equals("leave"))
                group.removeMember(words[1]);
            else
                subscribe(group, words[1], Arrays.asList(words[2].split(",")));
            answer("then", group.subscribedTopicNames().keySet());
            System.out.println("end");
        }
    }

    private static void subscribe(ShareGroup group, String id, List<String> topics) {
        ShareGroupMember old = group.getOrMaybeCreateMember(id, true);
        ShareGroupMember updated = with(old, topics);
        answer("next", group.computeSubscribedTopicNames(old, updated).keySet());
        group.updateMember(with(old, List.copyOf(new TreeSet<>(topics))));
    }

    private static ShareGroupMember with(ShareGroupMember member, List<String> topics) {
        return new ShareGroupMember.Builder(member)
            .maybeUpdateSubscribedTopicNames(Optional.of(topics))
            .build();
    }

    private static void answer(String word, Set<String> topics) {
        System.out.println(word + " " + String.join(",", topics));
    }
}
