package example;

import dev.weir.Weir;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;

/**
 * Counts words: source, tokenize (no keys), count (keyed by word), sink, each an operator of its
 * own for Weir. Lines come open-loop, stamped with when they were due.
 *
 * <p>The arguments {@code --trace}, {@code --slot-seconds}, {@code --scale}, {@code --at-end},
 * {@code --start-at}, {@code --seed}, {@code --work}, {@code --checkpoint-seconds} and {@code --out}
 * are those of {@link Trips}; the others, with what holds where they are absent:
 *
 * <pre>
 * --words 3                 in a line
 * --vocabulary 5000         how many words there are
 * --payload-bytes 100       width of a record beside its own fields
 * --service.tokenize-ms 2   mean service time of a line at speed 1; of a word in count: 1
 * --scv.tokenize 0.5        its squared coefficient of variation; count: 0.5
 * </pre>
 */
public final class WordCount {
    private WordCount() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        long seed = settings.getLong("seed", 7);
        String directory = settings.get("out", null);
        TraceSource source =
                new TraceSource(
                        Arguments.schedule(settings, seed),
                        1,
                        settings.getInt("payload-bytes", 100),
                        seed,
                        settings.getLong("start-at", 0),
                        directory);
        Tokenize tokenize =
                new Tokenize(
                        Arguments.service(settings, "tokenize", 2, 0.5, seed),
                        settings.getInt("words", 3),
                        settings.getInt("vocabulary", 5000),
                        Draws.bits(seed, "word".hashCode()));
        Aggregate count = new Aggregate(Arguments.service(settings, "count", 1, 0.5, seed));
        StreamExecutionEnvironment env =
                Arguments.environment(settings, new Configuration(), args);
        Arguments.refuseUnknown(settings, "WordCount.java");

        DataStream<Trip> lines =
                Weir.pin(
                        env.fromSource(
                                        source,
                                        WatermarkStrategy.noWatermarks(),
                                        "source",
                                        Types.POJO(Trip.class))
                                .uid("source"),
                        "source",
                        args);
        DataStream<Trip> words =
                Weir.pin(
                        lines.rebalance()
                                .process(Weir.timed(tokenize))
                                .name("tokenize")
                                .uid("tokenize"),
                        "tokenize",
                        args);
        DataStream<Trip> counted =
                Weir.pin(
                        words.keyBy(word -> word.zone, Types.INT)
                                .process(Weir.timed(count))
                                .name("count")
                                .uid("count"),
                        "count",
                        args);
        Weir.pin(
                counted.process(Weir.latency(new LedgerSink(directory))).name("sink").uid("sink"),
                "sink",
                args);
        env.execute("wordcount");
    }
}
