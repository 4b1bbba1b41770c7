package dev.weir.agent;

import java.lang.reflect.Method;
import java.text.Normalizer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamGraphHasherV2;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator;
import org.apache.flink.streaming.api.operators.ChainingStrategy;
import org.apache.flink.streaming.api.operators.SourceOperatorFactory;
import org.apache.flink.streaming.runtime.partitioner.ForwardPartitioner;

/**
 * The operators of a graph: what Flink will chain, asked of Flink itself, with chains joined that
 * have to share slots because they are co-located or because records pass one to one into keyed
 * state.
 */
final class Operators {
    private static final int LONGEST_NAME = 40;
    private static final String VERTICES = "weir.vertices.";

    private Operators() {}

    /**
     * Returns the operators in the order in which the program made them, joined as the settings ask.
     *
     * @throws Refusal the settings name an operator that does not exist
     */
    static List<Operator> of(StreamGraph graph, Map<String, String> settings) {
        return join(of(graph), settings);
    }

    /** {@code weir.vertices.NAME} has the names of the operators that become the operator NAME. */
    static List<Operator> join(List<Operator> operators, Map<String, String> settings) {
        List<String> known = new ArrayList<>();
        operators.forEach(operator -> known.add(operator.name));
        Map<String, String> wanted = new HashMap<>();
        settings.forEach(
                (key, value) -> {
                    if (!key.startsWith(VERTICES)) {
                        return;
                    }
                    for (String vertex : value.trim().split("\\s+")) {
                        if (!known.contains(vertex)) {
                            throw new Refusal(
                                    "Expected vertices of " + known + ", got " + vertex);
                        }
                        wanted.put(vertex, key.substring(VERTICES.length()));
                    }
                });
        Map<String, Operator> joined = new LinkedHashMap<>();
        for (Operator operator : operators) {
            String name = wanted.getOrDefault(operator.name, operator.name);
            joined.computeIfAbsent(name, Operator::new).join(operator);
        }
        return new ArrayList<>(joined.values());
    }

    /** Returns the operators before any are joined. */
    static List<Operator> of(StreamGraph graph) {
        Map<Integer, byte[]> ids = ids(graph);
        Groups chained = new Groups(graph);
        Groups joined = new Groups(graph);
        Map<String, Integer> located = new HashMap<>();
        for (StreamNode node : graph.getStreamNodes()) {
            for (StreamEdge edge : node.getOutEdges()) {
                if (StreamingJobGraphGenerator.isChainable(edge, graph)
                        || isChainableSource(node, edge, graph)) {
                    chained.join(edge.getSourceId(), edge.getTargetId());
                    joined.join(edge.getSourceId(), edge.getTargetId());
                } else if (edge.getPartitioner() instanceof ForwardPartitioner
                        && isKeyed(graph.getTargetVertex(edge))) {
                    joined.join(edge.getSourceId(), edge.getTargetId());
                }
            }
            if (node.getCoLocationGroup() != null) {
                Integer first = located.putIfAbsent(node.getCoLocationGroup(), node.getId());
                if (first != null) {
                    joined.join(first, node.getId());
                }
            }
        }
        Map<Integer, Operator> operators = new LinkedHashMap<>();
        Map<Integer, Operator.Chain> chains = new HashMap<>();
        for (Integer id : chained.members()) {
            Operator operator =
                    operators.computeIfAbsent(joined.of(id), root -> new Operator(""));
            Operator.Chain chain =
                    chains.computeIfAbsent(
                            chained.of(id),
                            root -> {
                                Operator.Chain added = new Operator.Chain();
                                operator.chains.add(added);
                                return added;
                            });
            chain.nodes.add(graph.getStreamNode(id));
        }
        Set<String> used = new HashSet<>();
        for (Operator operator : operators.values()) {
            operator.chains.forEach(chain -> chain.id = hex(ids.get(chain.head().getId())));
            operator.name = unused(slug(name(operator)), used);
            limit(operator);
        }
        return new ArrayList<>(operators.values());
    }

    /** Returns the ids of the vertices that nodes will be in, as far as they are heads. */
    static Map<Integer, byte[]> ids(StreamGraph graph) {
        return new HashMap<>(new StreamGraphHasherV2().traverseStreamGraphAndGenerateHashes(graph));
    }

    /** Returns the name of an operator before it is made plain: a uid, else the first function's. */
    private static String name(Operator operator) {
        StreamNode head = operator.chains.get(0).head();
        if (head.getTransformationUID() != null) {
            return head.getTransformationUID();
        }
        for (StreamNode node : operator.nodes()) {
            if (node.getTransformationUID() != null) {
                return node.getTransformationUID();
            }
        }
        return head.getOperatorName();
    }

    /** Returns the name, numbered where an operator before it has the same. */
    static String unused(String name, Set<String> used) {
        String found = name;
        for (int number = 2; !used.add(found); number++) {
            found = name + "-" + number;
        }
        return found;
    }

    /** SQL's names end in a number that grows with every planning in one JVM: it is left out. */
    static String slug(String name) {
        String slug = plain(name.replaceAll("\\[\\d+\\]", ""));
        slug = slug.length() > LONGEST_NAME ? plain(slug.substring(0, LONGEST_NAME)) : slug;
        return slug.isEmpty() ? "operator" : slug;
    }

    private static String plain(String text) {
        String letters = Normalizer.normalize(
                text.toLowerCase(Locale.ROOT).replace("\u00df", "ss"), Normalizer.Form.NFKD);
        return letters.replaceAll("[\\u0300-\\u036f]", "") // accents, which stand alone now
                .replaceAll("[^a-z0-9]+", "-")
                .replaceAll("^-+|-+$", "");
    }

    private static void limit(Operator operator) {
        for (StreamNode node : operator.nodes()) {
            int most = maxParallelism(node);
            if (most > 0 && most < operator.limit) {
                operator.limit = most;
                operator.why = "the maximum parallelism of " + node.getOperatorName();
            }
            if (isSequentialSource(node)) {
                operator.limit = 1;
                operator.why = node.getOperatorName() + " is a source without parallelism";
            }
        }
    }

    /** A source that is read within the task of the operator that it feeds. */
    private static boolean isChainableSource(StreamNode node, StreamEdge edge, StreamGraph graph) {
        StreamNode target = graph.getTargetVertex(edge);
        return node.getOperatorFactory() instanceof SourceOperatorFactory
                && node.getOutEdges().size() == 1
                && target.getOperatorFactory() != null
                && target.getOperatorFactory().getChainingStrategy()
                        == ChainingStrategy.HEAD_WITH_SOURCES
                && edge.getPartitioner() instanceof ForwardPartitioner
                && graph.isChainingEnabled()
                && node.getParallelism() == target.getParallelism();
    }

    private static boolean isKeyed(StreamNode node) {
        return node.getStatePartitioners() != null && node.getStatePartitioners().length > 0;
    }

    /** A source of the old kind that would repeat itself in every subtask. */
    private static boolean isSequentialSource(StreamNode node) {
        if (!node.getInEdges().isEmpty() || node.getOperatorFactory() == null) {
            return false;
        }
        try {
            Method method = node.getOperatorFactory().getClass().getMethod("getUserFunction");
            method.setAccessible(true);
            Object function = method.invoke(node.getOperatorFactory());
            return function != null
                    && isA("SourceFunction", function.getClass())
                    && !isA("ParallelSourceFunction", function.getClass());
        } catch (ReflectiveOperationException noFunction) {
            return false;
        }
    }

    /** By its simple name: the package of these interfaces differs between versions of Flink. */
    private static boolean isA(String name, Class<?> type) {
        if (type == null || type.getSimpleName().equals(name)) {
            return type != null;
        }
        for (Class<?> each : type.getInterfaces()) {
            if (isA(name, each)) {
                return true;
            }
        }
        return isA(name, type.getSuperclass());
    }

    /** Not public before Flink 2.0. */
    static int maxParallelism(StreamNode node) {
        try {
            Method method = StreamNode.class.getDeclaredMethod("getMaxParallelism");
            method.setAccessible(true);
            return (Integer) method.invoke(node);
        } catch (ReflectiveOperationException absent) {
            throw new IllegalStateException("this Flink has no StreamNode.getMaxParallelism");
        }
    }

    private static String hex(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte each : bytes) {
            text.append(String.format("%02x", each));
        }
        return text.toString();
    }

    /** Nodes that belong together, by the first of them. */
    private static final class Groups {
        private final Map<Integer, Integer> parents = new TreeMap<>();

        Groups(StreamGraph graph) {
            graph.getStreamNodes().forEach(node -> parents.put(node.getId(), node.getId()));
        }

        Iterable<Integer> members() {
            return parents.keySet();
        }

        int of(int id) {
            int found = id;
            while (parents.get(found) != found) {
                found = parents.get(found);
            }
            return found;
        }

        void join(int one, int other) {
            int first = of(one);
            int second = of(other);
            parents.put(Math.max(first, second), Math.min(first, second));
        }
    }
}
