package dev.weir.agent;

import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.streaming.api.graph.StreamGraph;

/** A small graph: a source, then a sum by key with a sink in its chain. */
final class Graphs {
    private Graphs() {}

    static StreamGraph of(Configuration settings) {
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.getExecutionEnvironment(settings);
        env.setParallelism(2);
        env.fromSequence(0, 9)
                .uid("numbers")
                .keyBy(number -> number % 2)
                .reduce(Long::sum)
                .uid("sums")
                .setMaxParallelism(4)
                .sinkTo(new DiscardingSink<>());
        return env.getStreamGraph();
    }
}
