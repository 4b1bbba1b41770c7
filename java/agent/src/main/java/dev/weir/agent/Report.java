package dev.weir.agent;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.runtime.jobgraph.JobType;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;

/** What the agent would do with a graph, for Weir's program that reads it. */
public final class Report {
    private Report() {}

    /** Returns the operator of each node, joined as the settings ask, by the node's id. */
    public static Map<Integer, String> operators(StreamGraph graph) {
        return byNode(Operators.of(graph, graph.getJobConfiguration().toMap()));
    }

    private static Map<Integer, String> byNode(List<Operator> operators) {
        Map<Integer, String> found = new HashMap<>();
        for (Operator operator : operators) {
            for (StreamNode node : operator.nodes()) {
                found.put(node.getId(), operator.name);
            }
        }
        return found;
    }

    /**
     * Returns a line per future vertex: its operator, its id, the parallelism that the program gives
     * it, the most that the operator can have, and the functions of the chain.
     */
    public static List<String> vertices(StreamGraph graph) {
        List<String> lines = new ArrayList<>();
        for (Operator operator : Operators.of(graph)) {
            for (Operator.Chain chain : operator.chains) {
                lines.add(
                        String.format(
                                "%s %s %d %d %s",
                                operator.name,
                                chain.id,
                                chain.head().getParallelism(),
                                operator.limit,
                                chain.label()));
            }
        }
        return lines;
    }

    /**
     * Returns a line per uid, {@code uid VERTEX UID}, and per pair of operators between which records
     * flow, {@code edge OPERATOR OPERATOR}; {@code pins-itself}, if the program asks for the
     * operators' slots by itself; and {@code not-restartable REASON}, if Flink cannot stop the job
     * and go on with it.
     */
    public static List<String> details(StreamGraph graph) {
        Set<String> lines = new LinkedHashSet<>();
        List<Operator> operators = Operators.of(graph);
        Map<Integer, String> byNode = byNode(operators);
        for (Operator operator : operators) {
            for (Operator.Chain chain : operator.chains) {
                for (StreamNode node : chain.nodes) {
                    if (node.getTransformationUID() != null) {
                        String uid = node.getTransformationUID().replaceAll("\\s+", " ");
                        lines.add("uid " + chain.id + " " + uid);
                    }
                }
            }
        }
        for (StreamNode node : graph.getStreamNodes()) {
            for (StreamEdge edge : node.getOutEdges()) {
                String source = byNode.get(node.getId());
                String target = byNode.get(edge.getTargetId());
                if (!source.equals(target)) {
                    lines.add("edge " + source + " " + target);
                }
            }
        }
        if (Rewriter.pinsItself(graph)) {
            lines.add("pins-itself");
        }
        String reason = notRestartable(graph);
        if (reason != null) {
            lines.add("not-restartable " + reason);
        }
        return new ArrayList<>(lines);
    }

    /** Returns why Flink takes no savepoint from which the whole job could go on, else null. */
    private static String notRestartable(StreamGraph graph) {
        if (graph.getJobType() == JobType.BATCH) {
            return "a batch job, of which Flink takes no savepoint";
        }
        return isIterative(graph)
                ? "a job with an iteration, whose records Flink puts into no savepoint while they"
                        + " go round"
                : null;
    }

    /**
     * Flink 2 has no iterations, and not the method.
     *
     * @throws Refusal Flink does not say; records that go round would be lost
     */
    static boolean isIterative(Object graph) {
        try {
            return (Boolean) graph.getClass().getMethod("isIterative").invoke(graph);
        } catch (NoSuchMethodException never) {
            return false;
        } catch (ReflectiveOperationException failure) {
            Throwable cause = failure.getCause() == null ? failure : failure.getCause();
            throw new Refusal("Expected Flink to say whether a job has iterations, got " + cause);
        }
    }

    /**
     * Pin a graph that nobody is going to run, so that what fails does so before a job is touched.
     *
     * @throws Refusal as for a job that is submitted
     */
    public static void rehearse(StreamGraph graph) {
        if (graph.isDynamic()) {
            throw new Refusal("The job is a batch job, whose parallelism Flink decides by itself");
        }
        Rewriter.change(graph, graph.getJobConfiguration().toMap());
    }

    /** Returns what the agent could not do in this JVM. */
    public static List<String> failures() {
        return StepBack.reasons();
    }
}
