package example;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.time.ZoneOffset;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;
import org.apache.flink.table.api.Schema;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.ParameterTool;

/**
 * A query of Nexmark over generated events: persons, their auctions, and bids. Each query is a file
 * {@code q*.sql} beside this one, except query 6, which is {@link AveragePrices}.
 *
 * <p>Source of the queries: Tucker, Tufte, Papadimos, Maier, "NEXMark: a benchmark for queries over
 * data streams", 2008, and queries 0 and 11 of Apache Beam's suite.
 *
 * <p>The job has no slot sharing groups: the agent makes operators of its vertices. The arguments
 * {@code --trace} (events/s), {@code --slot-seconds}, {@code --scale}, {@code --at-end}, {@code
 * --start-at}, {@code --seed}, {@code --checkpoint-seconds} and {@code --out} are those of {@link
 * Trips}; the others, with what holds where they are absent:
 *
 * <pre>
 * --query NAME              q0 to q8, or q11
 * --auction-seconds 20      how long an auction lasts on average
 * --commit DIR              results go there: +I, -U, +U or -D, and the row, a line each
 * </pre>
 */
public final class Nexmark {
    private static final String[] VIEWS = {
        "CREATE TEMPORARY VIEW person AS SELECT events.person.id AS id, events.person.name AS name,"
                + " events.person.city AS city, events.person.state AS state,"
                + " events.person.extra AS extra, ts FROM events WHERE events.person IS NOT NULL",
        "CREATE TEMPORARY VIEW auction AS SELECT events.auction.id AS id,"
                + " events.auction.seller AS seller, events.auction.category AS category,"
                + " TO_TIMESTAMP_LTZ(events.auction.expires, 3) AS expires,"
                + " events.auction.extra AS extra, ts FROM events WHERE events.auction IS NOT NULL",
        "CREATE TEMPORARY VIEW bid AS SELECT events.bid.auction AS auction,"
                + " events.bid.bidder AS bidder, events.bid.price AS price,"
                + " events.bid.extra AS extra, ts FROM events WHERE events.bid IS NOT NULL",
    };

    private Nexmark() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        long seed = settings.getLong("seed", 7);
        String query = settings.getRequired("query");
        String committed = settings.get("commit", null);
        TraceSource source =
                new TraceSource(
                        Arguments.schedule(settings, seed),
                        1,
                        0,
                        seed,
                        settings.getLong("start-at", 0),
                        settings.get("out", null));
        Generator generator =
                new Generator(
                        Draws.bits(seed, "event".hashCode()),
                        settings.getLong("auction-seconds", 20) * 1000);
        StreamExecutionEnvironment env =
                Arguments.environment(settings, new Configuration(), args);
        Arguments.refuseUnknown(settings, "Nexmark.java");

        DataStream<Event> events =
                env.fromSource(
                                source,
                                WatermarkStrategy.forMonotonousTimestamps(),
                                "source",
                                Types.POJO(Trip.class))
                        .setParallelism(1)
                        // A reader without the split would hold back the watermark.
                        .setMaxParallelism(1)
                        .uid("source")
                        .process(generator)
                        .returns(Types.POJO(Event.class))
                        .setParallelism(1)
                        .setMaxParallelism(1)
                        .name("events")
                        .uid("events");
        DataStream<String> lines =
                query.equals("q6") ? AveragePrices.of(events) : lines(env, events, query);
        if (committed == null) {
            lines.sinkTo(new DiscardingSink<>()).name("results").uid("results");
        } else {
            lines.sinkTo(Committed.sink(committed, line -> line)).name("results").uid("results");
        }
        env.execute("nexmark-" + query);
    }

    /** Returns how the rows of a query's result change, a line each. */
    private static DataStream<String> lines(
            StreamExecutionEnvironment env, DataStream<Event> events, String query)
            throws IOException {
        StreamTableEnvironment tables = StreamTableEnvironment.create(env);
        tables.getConfig().setLocalTimeZone(ZoneOffset.UTC);
        // Spread over replicas: in one vertex with the source, the first part could not be scaled.
        tables.createTemporaryView(
                "events",
                events.rebalance(),
                Schema.newBuilder()
                        .columnByMetadata("ts", "TIMESTAMP_LTZ(3)", "rowtime", true)
                        .watermark("ts", "SOURCE_WATERMARK()")
                        .build());
        for (String view : VIEWS) {
            tables.executeSql(view);
        }
        return tables.toChangelogStream(tables.sqlQuery(read(query)))
                .map(Nexmark::line)
                .returns(Types.STRING)
                .name("line")
                .uid("line");
    }

    private static String line(Row row) {
        StringBuilder line = new StringBuilder(row.getKind().shortString());
        for (int field = 0; field < row.getArity(); field++) {
            line.append(',').append(row.getField(field));
        }
        return line.toString();
    }

    private static String read(String query) throws IOException {
        try (InputStream text = Nexmark.class.getResourceAsStream("/" + query + ".sql")) {
            if (text == null) {
                throw new IllegalArgumentException(
                        "Expected q0 to q8 or q11 after --query, got " + query);
            }
            return new String(text.readAllBytes(), StandardCharsets.UTF_8);
        }
    }
}
