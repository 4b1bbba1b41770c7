package example;

import dev.weir.Weir;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;

/**
 * The ten most frequent taxi routes of the last half hour: source, parse, filter, route, count
 * (keyed by route), partial rank (keyed by part) and global rank, each an operator of its own for
 * Weir. Half an hour is half a minute here.
 *
 * <p>The query is the first of the DEBS 2015 Grand Challenge, with the operators that Cardellini et
 * al., FGCS 2018 (EDF), section 9, give it. Their metronome is the stream's watermark.
 *
 * <p>The arguments {@code --trace}, {@code --slot-seconds}, {@code --scale}, {@code --at-end},
 * {@code --start-at}, {@code --seed}, {@code --checkpoint-seconds} and {@code --out} are those of
 * {@link Trips}; the others, with what holds where they are absent:
 *
 * <pre>
 * --routes 400              how many different routes the rides take
 * --zipf 1.0                exponent of their frequencies
 * --tick-ms 1000            how far the window slides
 * --window-ticks 30         how long it is
 * --most 10                 how many routes are reported
 * --parts 60                parts of the routes that are ranked apart
 * --service.parse-ms 4      mean service time at speed 1; filter, route, count: 4, partial-rank: 1
 * --scv.parse 0.5           its squared coefficient of variation, of all of them
 * --commit DIR              the rankings go there, by a transactional sink
 * </pre>
 */
public final class Routes {
    private Routes() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        long seed = settings.getLong("seed", 7);
        Rides rides = Rides.from(settings);
        TraceSource source =
                new TraceSource(
                        Arguments.schedule(settings, seed),
                        1,
                        0,
                        seed,
                        settings.getLong("start-at", 0),
                        settings.get("out", null));
        Parse parse = new Parse(service(settings, "parse", 4));
        Within within = new Within(service(settings, "filter", 4));
        RouteOf routeOf = new RouteOf(service(settings, "route", 4));
        CountByWindow count =
                new CountByWindow(
                        settings.getLong("tick-ms", 1000),
                        settings.getLong("window-ticks", 30),
                        service(settings, "count", 4));
        int most = settings.getInt("most", 10);
        int parts = settings.getInt("parts", 60);
        Rank partialRank = new Rank(most, service(settings, "partial-rank", 1));
        Rank globalRank = new Rank(most, service(settings, "global-rank", 0));
        String committed = settings.get("commit", null);
        Configuration configuration = new Configuration();
        // A tick is reported when the watermark has passed it: late by half of this on average.
        configuration.setString("pipeline.auto-watermark-interval", "20 ms");
        StreamExecutionEnvironment env = Arguments.environment(settings, configuration, args);
        Arguments.refuseUnknown(settings, "Routes.java");

        DataStream<String> lines =
                Weir.pin(
                        Weir.pin(
                                        env.fromSource(
                                                        source,
                                                        WatermarkStrategy.<Trip>forMonotonousTimestamps(),
                                                        "source",
                                                        Types.POJO(Trip.class))
                                                .uid("source"),
                                        "source",
                                        args)
                                .process(new Write(rides))
                                .name("lines")
                                .uid("lines"),
                        "source",
                        args);
        DataStream<Ride> parsed =
                add(lines.rebalance().process(Weir.timed(parse)), "parse", args);
        DataStream<Ride> filtered =
                add(parsed.rebalance().process(Weir.timed(within)), "filter", args);
        DataStream<Ride> named =
                add(filtered.rebalance().process(Weir.timed(routeOf)), "route", args);
        DataStream<RouteCount> counted =
                add(
                        named.keyBy(ride -> ride.route, Types.STRING).process(Weir.timed(count)),
                        "count",
                        args);
        DataStream<RouteCount> partial =
                add(
                        counted.keyBy(
                                        each -> Math.floorMod(each.route.hashCode(), parts),
                                        Types.INT)
                                .process(Weir.timed(partialRank)),
                        "partial-rank",
                        args);
        DataStream<RouteCount> ranked =
                add(
                        partial.keyBy(each -> 0, Types.INT).process(Weir.timed(globalRank)),
                        "global-rank",
                        args);
        DataStream<String> rows =
                Weir.pin(
                        ranked.process(Weir.latency(new Tell())).name("tell").uid("tell"),
                        "global-rank",
                        args);
        if (committed != null) {
            Weir.pin(rows.sinkTo(Committed.sink(committed, row -> row)).name("commit").uid("commit"), "global-rank", args);
        }
        env.execute("routes");
    }

    private static Service service(ParameterTool settings, String operator, double meanMs) {
        return Arguments.service(settings, operator, meanMs, 0.5, settings.getLong("seed", 7));
    }

    private static <T> SingleOutputStreamOperator<T> add(
            SingleOutputStreamOperator<T> stream, String operator, String[] args) {
        return Weir.pin(stream.name(operator).uid(operator), operator, args);
    }

    /** Writes the line of a ride where the schedule says that one ends. */
    private static final class Write extends ProcessFunction<Trip, String> {
        private final Rides rides;

        Write(Rides rides) {
            this.rides = rides;
        }

        @Override
        public void processElement(Trip trip, Context context, Collector<String> out) {
            out.collect(rides.line(trip.id, context.timestamp()));
        }
    }

    /** Writes a row of a ranking: the last ms of its window, rank, route, count. */
    private static final class Tell extends ProcessFunction<RouteCount, String> {
        @Override
        public void processElement(RouteCount each, Context context, Collector<String> out) {
            out.collect(
                    context.timestamp() + "," + each.rank + "," + each.route + "," + each.count);
        }
    }
}
