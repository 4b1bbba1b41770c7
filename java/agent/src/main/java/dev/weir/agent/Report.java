package dev.weir.agent;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;

/** What the agent would do with a graph, for Weir's program that reads it. */
public final class Report {
    private Report() {}

    /** Returns the operator of each node, by the node's id. */
    public static Map<Integer, String> operators(StreamGraph graph) {
        Map<Integer, String> found = new HashMap<>();
        for (Operator operator : Operators.of(graph)) {
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
