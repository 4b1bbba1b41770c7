package example;

import dev.weir.Weir;
import java.nio.file.Path;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.util.ParameterTool;

/**
 * The example job with state that weighs something: `match` passes records on, `aggregate` hoards.
 * Source, ledger and operators are those of {@link Trips}.
 *
 * <pre>
 * --trace FILE        rates, records/s, one line per slot of 5 s; the last one is held
 * --out DIR           raw-*.csv, ledger.json and source.json go there
 * --hoard-records 0   how many records leave 64 KiB each in the state of `aggregate`
 * </pre>
 */
public final class Heavy {
    private static final long SEED = 7;
    private static final int ZONES = 5000;
    private static final int PAYLOAD_BYTES = 200;
    private static final double SLOT_SECONDS = 5;

    private Heavy() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        String directory = settings.getRequired("out");
        double[] rates = Trace.read(Path.of(settings.getRequired("trace")));
        Hoard hoard = new Hoard(settings.getLong("hoard-records", 0));
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.getConfig().enableObjectReuse(); // no function keeps a record

        Schedule schedule = new Schedule(rates, SLOT_SECONDS, SEED, true);
        DataStream<Trip> trips =
                Weir.pin(
                        env.fromSource(
                                        new TraceSource(
                                                schedule, ZONES, PAYLOAD_BYTES, SEED, 0, directory),
                                        WatermarkStrategy.noWatermarks(),
                                        "source",
                                        Types.POJO(Trip.class))
                                .uid("source"),
                        "source",
                        args);
        DataStream<Trip> matched =
                Weir.pin(
                        trips.rebalance()
                                .process(Weir.timed(new Pass()))
                                .name("match")
                                .uid("match"),
                        "match",
                        args);
        DataStream<Trip> counted =
                Weir.pin(
                        matched.keyBy(trip -> trip.zone, Types.INT)
                                .process(Weir.timed(hoard))
                                .name("aggregate")
                                .uid("aggregate"),
                        "aggregate",
                        args);
        Weir.pin(
                counted.process(Weir.latency(new LedgerSink(directory))).name("sink").uid("sink"),
                "sink",
                args);
        env.execute("heavy");
    }

    private static final class Pass implements MapFunction<Trip, Trip> {
        private static final long serialVersionUID = 1;

        @Override
        public Trip map(Trip trip) {
            return trip;
        }
    }
}
