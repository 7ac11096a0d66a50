import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Collectors;

import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.streams.assignor.TopologyDescriber;
import org.apache.kafka.coordinator.group.streams.assignor.AssignmentConfigsImpl;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.coordinator.group.streams.assignor.MemberMetadataAndStateImpl;
import org.apache.kafka.coordinator.group.streams.assignor.StickyTaskAssignor;

/**
 * Has Kafka's sticky assignor assign the streams groups described on standard input, one per "end".
 *
 * Lines of a group: "assign STANDBY-REPLICAS", "subtopology ID TASKS stateful|stateless",
 * "member ID PROCESS ACTIVE STANDBY OFFSETS" with tasks ID=1.2;...|- and offsets ID=1:7.2:0;...|-.
 * Answers "ID ACTIVE STANDBY" in the order of the members, sorted by task, then "end".
 */
public class AssignTasks implements TopologyDescriber {
    private int replicas;
    private final Map<String, Integer> counts = new TreeMap<>();
    private final Set<String> stateful = new HashSet<>();
    private final Map<String, MemberMetadataAndStateImpl> members = new HashMap<>();
    private final List<String> memberIds = new ArrayList<>();

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        AssignTasks group = new AssignTasks();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            if (line.equals("end")) {
                group.answer();
                group = new AssignTasks();
            } else {
                group.read(line.split(" "));
            }
        }
    }

    private void read(String[] words) {
        switch (words[0]) {
            case "assign":
                replicas = Integer.parseInt(words[1]);
                break;
            case "subtopology":
                counts.put(words[1], Integer.parseInt(words[2]));
                if (words[3].equals("stateful"))
                    stateful.add(words[1]);
                break;
            default:
                memberIds.add(words[1]);
                members.put(words[1], new MemberMetadataAndStateImpl(
                    Optional.empty(), Optional.empty(), words[2], Map.of(), tasks(words[3]),
                    tasks(words[4]), Map.of(), offsets(words[5]), Map.of()));
        }
    }

    private static Map<String, Set<Integer>> tasks(String text) {
        Map<String, Set<Integer>> tasks = new HashMap<>();
        if (!text.equals("-"))
            for (String one : text.split(";"))
                for (String partition : one.split("=")[1].split("\\."))
                    tasks.computeIfAbsent(one.split("=")[0], __ -> new HashSet<>())
                        .add(Integer.parseInt(partition));
        return tasks;
    }

    private static Map<String, Map<Integer, Long>> offsets(String text) {
        Map<String, Map<Integer, Long>> offsets = new HashMap<>();
        if (!text.equals("-"))
            for (String one : text.split(";"))
                for (String task : one.split("=")[1].split("\\."))
                    offsets.computeIfAbsent(one.split("=")[0], __ -> new HashMap<>()).put(
                        Integer.parseInt(task.split(":")[0]), Long.parseLong(task.split(":")[1]));
        return offsets;
    }

    private void answer() {
        GroupAssignment result = new StickyTaskAssignor().assign(
            new GroupSpecImpl(members, AssignmentConfigsImpl.DEFAULT.withNumStandbyReplicas(replicas)),
            this);
        StringBuilder out = new StringBuilder();
        for (String id : memberIds) {
            MemberAssignment assigned = result.members().get(id);
            out.append(id).append(' ').append(text(assigned.activeTasks())).append(' ')
                .append(text(assigned.standbyTasks())).append('\n');
        }
        System.out.println(out + "end");
        System.out.flush();
    }

    private static String text(Map<String, Set<Integer>> tasks) {
        Map<String, Set<Integer>> sorted = new LinkedHashMap<>();
        new TreeSet<>(tasks.keySet()).forEach(id -> sorted.put(id, new TreeSet<>(tasks.get(id))));
        String text = sorted.entrySet().stream().map(entry -> entry.getKey() + "="
            + entry.getValue().stream().map(String::valueOf).collect(Collectors.joining(".")))
            .collect(Collectors.joining(";"));
        return text.isEmpty() ? "-" : text;
    }

    @Override
    public List<String> subtopologies() {
        return List.copyOf(counts.keySet());
    }

    @Override
    public int maxNumInputPartitions(String subtopologyId) {
        return counts.get(subtopologyId);
    }

    @Override
    public boolean isStateful(String subtopologyId) {
        return stateful.contains(subtopologyId);
    }
}
