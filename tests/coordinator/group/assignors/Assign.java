import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Scanner;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupSpec;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberSubscription;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;

/**
 * Asks Apache Kafka's assignors. A line of input is a group, a line of output its assignment:
 *
 *   assignor | topic:partitions ... | member / instance or - / topic ... / topic:partition ... | next member ...
 *   member = topic:partition ... | next member ...
 *
 * A topic is a number: the lower half of its id.
 */
public class Assign {
    record Member(Optional<String> instanceId, Set<Uuid> subscribedTopicIds, Map<Uuid, Set<Integer>> partitions)
        implements MemberSubscription, MemberAssignment {
        public Optional<String> rackId() {
            return Optional.empty();
        }
    }

    record Group(Map<String, Member> members) implements GroupSpec {
        public Collection<String> memberIds() {
            return members.keySet();
        }

        public SubscriptionType subscriptionType() {
            long different = members.values().stream().map(Member::subscribedTopicIds).distinct().count();
            return different > 1 ? SubscriptionType.HETEROGENEOUS : SubscriptionType.HOMOGENEOUS;
        }

        public boolean isPartitionAssigned(Uuid topic, int partition) {
            return members.values().stream().anyMatch(m -> m.partitions.getOrDefault(topic, Set.of()).contains(partition));
        }

        public boolean isPartitionAssignable(Uuid topic, int partition) {
            return true;
        }

        public MemberSubscription memberSubscription(String id) {
            return members.get(id);
        }

        public MemberAssignment memberAssignment(String id) {
            return members.get(id);
        }
    }

    record Topics(Map<Uuid, Integer> counts) implements SubscribedTopicDescriber {
        public int numPartitions(Uuid topic) {
            return counts.getOrDefault(topic, -1);
        }

        public Set<String> racksForPartition(Uuid topic, int partition) {
            return Set.of();
        }
    }

    static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    static List<String> words(String text) {
        return text.isBlank() ? List.of() : List.of(text.trim().split(" +"));
    }

    public static void main(String[] args) {
        Scanner lines = new Scanner(System.in);
        while (lines.hasNextLine()) {
            String[] parts = lines.nextLine().split("\\|");
            PartitionAssignor assignor = parts[0].trim().equals("range") ? new RangeAssignor() : new UniformAssignor();
            Map<Uuid, Integer> counts = new LinkedHashMap<>();
            for (String word : words(parts[1])) {
                String[] pair = word.split(":");
                counts.put(topic(pair[0]), Integer.parseInt(pair[1]));
            }
            Map<String, Member> members = new LinkedHashMap<>();
            for (int i = 2; i < parts.length; i++) {
                String[] fields = parts[i].split("/");
                Set<Uuid> subscribed = new LinkedHashSet<>();
                words(fields[2]).forEach(word -> subscribed.add(topic(word)));
                Map<Uuid, Set<Integer>> has = new LinkedHashMap<>();
                for (String word : words(fields[3])) {
                    String[] pair = word.split(":");
                    has.computeIfAbsent(topic(pair[0]), t -> new TreeSet<>()).add(Integer.parseInt(pair[1]));
                }
                Optional<String> instance = fields[1].trim().equals("-") ? Optional.empty() : Optional.of(fields[1].trim());
                members.put(fields[0].trim(), new Member(instance, subscribed, Collections.unmodifiableMap(has)));
            }
            Map<String, MemberAssignment> assigned = assignor.assign(new Group(members), new Topics(counts)).members();
            List<String> told = new ArrayList<>();
            for (Map.Entry<String, MemberAssignment> entry : new TreeMap<>(assigned).entrySet()) {
                Set<String> places = new TreeSet<>();
                entry.getValue().partitions().forEach((topic, partitions) ->
                    partitions.forEach(partition -> places.add(topic.getLeastSignificantBits() + ":" + partition)));
                told.add(entry.getKey() + " = " + String.join(" ", places));
            }
            System.out.println(String.join(" | ", told));
        }
    }
}
