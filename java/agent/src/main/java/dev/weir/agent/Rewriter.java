package dev.weir.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.flink.api.common.resources.ExternalResource;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.runtime.clusterframework.types.ResourceProfile;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.runtime.partitioner.ForwardPartitioner;
import org.apache.flink.streaming.runtime.partitioner.RebalancePartitioner;

/**
 * Gives every operator of a job a parallelism, and slots on TaskManagers of its own, just before
 * Flink makes chains.
 *
 * <p>All nodes of a chain get the same parallelism and slot sharing group, and different operators
 * different ones. So exactly the edges are chained that were chained before; and as the ids that
 * Flink generates depend on positions and chains alone, they stay what they were. That is checked:
 * where an id would differ, everything is taken back.
 *
 * <pre>
 * weir.pin: true              without it nothing is changed
 * weir.parallelism.NAME       without it the program's own holds
 * weir.vertices.NAME          operators that share the slots of one, separated by blanks
 * weir.managed-memory.NAME    what a slot asks for, beside the external resource op-NAME
 * </pre>
 *
 * A job that asks for such resources by itself is left alone, and so is a batch job.
 */
public final class Rewriter {
    private static final String PARALLELISM = "weir.parallelism.";
    private static final String MANAGED_MEMORY = "weir.managed-memory.";
    private static final String RESOURCE = "op-";
    private static final int CPU = 1;
    private static final int HEAP_MB = 64;

    private Rewriter() {}

    /**
     * Rewrite the graphs among the arguments of a method.
     *
     * @throws Refusal the settings name an operator that there is not, or too many replicas
     */
    public static void rewrite(Object[] arguments) {
        for (Object argument : arguments) {
            try {
                if (argument instanceof StreamGraph) {
                    rewrite((StreamGraph) argument);
                }
            } catch (Refusal refusal) {
                throw refusal;
            } catch (Throwable failure) {
                StepBack.because("the graph of the job", failure);
            }
        }
    }

    static void rewrite(StreamGraph graph) {
        Map<String, String> settings = graph.getJobConfiguration().toMap();
        if (!"true".equals(settings.get("weir.pin")) || graph.isDynamic()) {
            return;
        }
        if (!pinsItself(graph)) {
            change(graph, settings);
        }
        try {
            KeyCounts.nameReceivers(graph);
        } catch (ReflectiveOperationException failure) {
            StepBack.because("the keys of the job", failure);
        }
    }

    /** Pin a graph; where that fails, the graph is what it was. */
    static void change(StreamGraph graph, Map<String, String> settings) {
        Map<Integer, byte[]> before = Operators.ids(graph);
        List<Operator> operators = Operators.of(graph, settings);
        Map<Operator, Integer> wanted = parallelisms(operators, settings);
        List<Runnable> undo = new ArrayList<>();
        try {
            Map<String, ResourceProfile> resources = new HashMap<>();
            for (Operator operator : operators) {
                for (StreamNode node : operator.nodes()) {
                    keep(node, undo);
                    node.setParallelism(wanted.get(operator));
                    node.setSlotSharingGroup(operator.name);
                }
                resources.put(operator.name, profile(operator.name, settings));
            }
            reconnect(graph, undo);
            check(graph, before);
            graph.setSlotSharingGroupResource(resources);
        } catch (Throwable failure) {
            undo.forEach(Runnable::run);
            throw failure;
        }
    }

    /** Returns whether a slot sharing group of the program's own asks for an operator's resource. */
    static boolean pinsItself(StreamGraph graph) {
        for (StreamNode node : graph.getStreamNodes()) {
            if (node.getSlotSharingGroup() != null
                    && graph.getSlotSharingGroupResource(node.getSlotSharingGroup())
                            .map(ResourceProfile::getExtendedResources)
                            .map(Map::keySet)
                            .filter(names -> names.stream().anyMatch(n -> n.startsWith(RESOURCE)))
                            .isPresent()) {
                return true;
            }
        }
        return false;
    }

    private static Map<Operator, Integer> parallelisms(
            List<Operator> operators, Map<String, String> settings) {
        TreeSet<String> unknown = new TreeSet<>();
        for (String key : settings.keySet()) {
            if (key.startsWith(PARALLELISM)) {
                unknown.add(key.substring(PARALLELISM.length()));
            }
        }
        Map<Operator, Integer> found = new HashMap<>();
        List<String> names = new ArrayList<>();
        for (Operator operator : operators) {
            String value = settings.get(PARALLELISM + operator.name);
            int parallelism =
                    value == null ? operator.parallelism() : Integer.parseInt(value.trim());
            if (parallelism > operator.limit) {
                throw new Refusal(
                        String.format(
                                "Expected at most %d replicas of %s (%s), got %d",
                                operator.limit, operator.name, operator.why, parallelism));
            }
            found.put(operator, parallelism);
            unknown.remove(operator.name);
            names.add(operator.name);
        }
        if (!unknown.isEmpty()) {
            throw new Refusal("Expected operators of " + names + ", got " + unknown);
        }
        return found;
    }

    private static void keep(StreamNode node, List<Runnable> undo) {
        int parallelism = node.getParallelism();
        String group = node.getSlotSharingGroup();
        undo.add(
                () -> {
                    node.setParallelism(parallelism);
                    node.setSlotSharingGroup(group);
                });
    }

    /** Edges that pass records on one to one cannot where the two sides differ in number. */
    private static void reconnect(StreamGraph graph, List<Runnable> undo) {
        for (StreamNode node : graph.getStreamNodes()) {
            for (StreamEdge edge : node.getOutEdges()) {
                if (edge.getPartitioner() instanceof ForwardPartitioner
                        && node.getParallelism() != graph.getTargetVertex(edge).getParallelism()) {
                    var partitioner = edge.getPartitioner();
                    undo.add(() -> edge.setPartitioner(partitioner));
                    edge.setPartitioner(new RebalancePartitioner<>());
                }
            }
        }
    }

    private static void check(StreamGraph graph, Map<Integer, byte[]> before) {
        Map<Integer, byte[]> after = Operators.ids(graph);
        before.forEach(
                (node, id) -> {
                    if (!Arrays.equals(id, after.get(node))) {
                        String name = graph.getStreamNode(node).getOperatorName();
                        throw new IllegalStateException("the id of " + name + " would change");
                    }
                });
    }

    private static ResourceProfile profile(String name, Map<String, String> settings) {
        ResourceProfile.Builder profile =
                ResourceProfile.newBuilder()
                        .setCpuCores(CPU)
                        .setTaskHeapMemoryMB(HEAP_MB)
                        .setExtendedResource(new ExternalResource(RESOURCE + name, 1));
        String managed = settings.get(MANAGED_MEMORY + name);
        return managed == null
                ? profile.build()
                : profile.setManagedMemory(MemorySize.parse(managed)).build();
    }
}
