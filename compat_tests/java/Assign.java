import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;

import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.SimpleAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.generated.ConsumerGroupTargetAssignmentMemberValue;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/**
 * Has Kafka's server-side assignors assign the groups described on standard input, one per "end".
 *
 * Lines of a group: "assign uniform|range|simple HOMOGENEOUS|HETEROGENEOUS", "topic ID COUNT",
 * "assignable TOPIC=1.2" for the simple assignor of share groups,
 * "member ID INSTANCE|- TOPIC,...|- TOPIC=1.2;...|-" with the last target assignment.
 * Answers "ID TOPIC=1.2;...|-" in the order of the members, then "end".
 */
public class Assign {
    private String assignor;
    private SubscriptionType type;
    private final Map<Uuid, Integer> topics = new LinkedHashMap<>();
    private final List<String> memberIds = new ArrayList<>();
    private final Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
    private final Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
    private final Map<Uuid, Set<Integer>> assignable = new HashMap<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        Assign group = new Assign();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("end")) {
                group.answer();
                group = new Assign();
            } else {
                group.read(line.split(" "));
            }
        }
    }

    private void read(String[] words) {
        switch (words[0]) {
            case "assign":
                assignor = words[1];
                type = SubscriptionType.valueOf(words[2]);
                break;
            case "topic":
                topics.put(Uuid.fromString(words[1]), Integer.parseInt(words[2]));
                break;
            case "assignable":
                String[] parts = words[1].split("=");
                assignable.put(Uuid.fromString(parts[0]), new HashSet<>(readPartitions(parts)));
                break;
            default:
                readMember(words[1], words[2], words[3], words[4]);
        }
    }

    private void readMember(String id, String instance, String subscribed, String target) {
        Set<Uuid> topicIds = new LinkedHashSet<>();
        if (!subscribed.equals("-"))
            for (String topic : subscribed.split(","))
                topicIds.add(Uuid.fromString(topic));
        ConsumerGroupTargetAssignmentMemberValue value =
            new ConsumerGroupTargetAssignmentMemberValue();
        if (!target.equals("-"))
            for (String one : target.split(";"))
                value.topicPartitions().add(readTopic(id, one.split("=")));
        memberIds.add(id);
        members.put(id, new MemberSubscriptionAndAssignmentImpl(
            Optional.empty(), instance.equals("-") ? Optional.empty() : Optional.of(instance),
            topicIds, Assignment.fromRecord(value)));
    }

    private ConsumerGroupTargetAssignmentMemberValue.TopicPartition readTopic(
        String memberId, String[] parts
    ) {
        Uuid topic = Uuid.fromString(parts[0]);
        List<Integer> partitions = readPartitions(parts);
        for (Integer partition : partitions)
            owners.computeIfAbsent(topic, __ -> new HashMap<>()).put(partition, memberId);
        return new ConsumerGroupTargetAssignmentMemberValue.TopicPartition()
            .setTopicId(topic).setPartitions(partitions);
    }

    private static List<Integer> readPartitions(String[] parts) {
        return parts.length < 2 ? List.of() : Arrays.stream(parts[1].split("\\."))
            .map(Integer::parseInt).collect(Collectors.toList());
    }

    private PartitionAssignor used() {
        switch (assignor) {
            case "range":
                return new RangeAssignor();
            case "simple":
                return new SimpleAssignor();
            default:
                return new UniformAssignor();
        }
    }

    private void answer() {
        GroupAssignment result = used().assign(
            new GroupSpecImpl(Collections.unmodifiableMap(members), type, owners,
                assignor.equals("simple") ? Optional.of(assignable) : Optional.empty()),
            new Topics());
        StringBuilder out = new StringBuilder();
        for (String id : memberIds) {
            MemberAssignment assigned = result.members().get(id);
            String text = assigned == null ? "" : assigned.partitions().entrySet().stream()
                .map(entry -> entry.getKey() + "=" + entry.getValue().stream()
                    .map(String::valueOf).collect(Collectors.joining(".")))
                .collect(Collectors.joining(";"));
            out.append(id).append(' ').append(text.isEmpty() ? "-" : text).append('\n');
        }
        System.out.println(out + "end");
        System.out.flush();
    }

    private class Topics implements SubscribedTopicDescriber {
        @Override
        public int numPartitions(Uuid topicId) {
            return topics.getOrDefault(topicId, -1);
        }

        @Override
        public Set<String> racksForPartition(Uuid topicId, int partition) {
            return Set.of();
        }
    }
}
