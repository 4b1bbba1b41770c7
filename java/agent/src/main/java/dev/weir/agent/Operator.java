package dev.weir.agent;

import java.util.ArrayList;
import java.util.List;
import org.apache.flink.streaming.api.graph.StreamNode;

/** What is scaled as one: a chain, or several that have to share slots. */
final class Operator {
    /** Parallelism that Flink never exceeds. */
    static final int NO_LIMIT = 1 << 15;

    final List<Chain> chains = new ArrayList<>();
    String name;
    int limit = NO_LIMIT;
    String why = "";

    Operator(String name) {
        this.name = name;
    }

    /** Adds the chains of another operator; the lower of both limits applies. */
    void join(Operator other) {
        chains.addAll(other.chains);
        if (other.limit < limit) {
            limit = other.limit;
            why = other.why;
        }
    }

    int parallelism() {
        return chains.get(0).head().getParallelism();
    }

    List<StreamNode> nodes() {
        List<StreamNode> all = new ArrayList<>();
        chains.forEach(chain -> all.addAll(chain.nodes));
        return all;
    }

    /** A future vertex. */
    static final class Chain {
        final List<StreamNode> nodes = new ArrayList<>();
        String id;

        /** Returns the node that nothing of the chain flows into, the first of several. */
        StreamNode head() {
            for (StreamNode node : nodes) {
                if (node.getInEdges().stream()
                        .noneMatch(
                                edge ->
                                        nodes.stream()
                                                .anyMatch(
                                                        each ->
                                                                each.getId()
                                                                        == edge.getSourceId()))) {
                    return node;
                }
            }
            return nodes.get(0);
        }

        String label() {
            List<String> names = new ArrayList<>();
            nodes.forEach(node -> names.add(node.getOperatorName()));
            return String.join(" -> ", names).replaceAll("\\s+", " ");
        }
    }
}
