package example;

import dev.weir.Weir;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;

/**
 * A job to scale: source, match (no keys), aggregate (keyed by zone), sink, each an operator of its
 * own for Weir.
 *
 * <p>The arguments, with what holds where they are absent:
 *
 * <pre>
 * --trace FILE              rates, records/s, one line per slot (must be given)
 * --slot-seconds 5          how long a line lasts
 * --scale 1.0               what rates are multiplied by
 * --at-end hold             after the last line: hold (its rate goes on) or finish (the job ends)
 * --start-at                Unix ms at which the trace begins; what is past by then is backlog
 * --seed 7                  of arrivals, zones and service times
 * --zones 5000              number of keys; few of them fall unevenly on the replicas
 * --payload-bytes 200       width of a record beside its own fields
 * --service.match-ms 30     mean service time at speed 1; aggregate: 20
 * --scv.match 1.0           its squared coefficient of variation; aggregate: 0.5
 * --work wait               what the time goes into: wait (no CPU), burn (CPU) or limited (the same
 *                           CPU at every speed: what limits a replica's CPU makes it slow)
 * --work.match              the same for one operator, such as wait for a slow external call;
 *                           aggregate, too
 * --checkpoint-seconds 2
 * --out DIR                 raw-*.csv, ledger.json and source.json go there
 * --commit DIR              a transactional sink writes the ids of what arrived there
 * </pre>
 */
public final class Trips {
    private Trips() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        long seed = settings.getLong("seed", 7);
        String directory = settings.get("out", null);
        String committed = settings.get("commit", null);
        TraceSource source =
                new TraceSource(
                        Arguments.schedule(settings, seed),
                        settings.getInt("zones", 5000),
                        settings.getInt("payload-bytes", 200),
                        seed,
                        settings.getLong("start-at", 0),
                        directory);
        Match match = new Match(Arguments.service(settings, "match", 30, 1.0, seed));
        Aggregate aggregate =
                new Aggregate(Arguments.service(settings, "aggregate", 20, 0.5, seed));
        Configuration configuration = new Configuration();
        configuration.setString("pipeline.object-reuse", "true"); // no function keeps a record
        StreamExecutionEnvironment env = Arguments.environment(settings, configuration, args);
        Arguments.refuseUnknown(settings, "Trips.java");

        DataStream<Trip> trips =
                Weir.pin(
                        env.fromSource(
                                        source,
                                        WatermarkStrategy.noWatermarks(),
                                        "source",
                                        Types.POJO(Trip.class))
                                .uid("source"),
                        "source",
                        args);
        DataStream<Trip> matched =
                Weir.pin(
                        trips.rebalance().process(Weir.timed(match)).name("match").uid("match"),
                        "match",
                        args);
        DataStream<Trip> counted =
                Weir.pin(
                        matched.keyBy(trip -> trip.zone, Types.INT)
                                .process(Weir.timed(aggregate))
                                .name("aggregate")
                                .uid("aggregate"),
                        "aggregate",
                        args);
        // One sink keeps one ledger: one to one, Flink would scale it together with what is before it.
        DataStream<Trip> arrived =
                Weir.pin(
                        counted.rebalance()
                                .process(Weir.latency(new LedgerSink(directory)))
                                .name("sink")
                                .uid("sink"),
                        "sink",
                        args);
        if (committed != null) {
            Weir.pin(
                    arrived.sinkTo(Committed.sink(committed)).name("commit").uid("commit"),
                    "sink",
                    args);
        }
        env.execute("trips");
    }
}
