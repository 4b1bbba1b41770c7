package example;

import dev.weir.Weir;
import java.io.IOException;
import java.time.Duration;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.typeinfo.TypeHint;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.windowing.assigners.SlidingEventTimeWindows;
import org.apache.flink.streaming.api.windowing.assigners.TumblingEventTimeWindows;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;

/**
 * Hot items, query 5 of Nexmark: every so often, the item with most bids in the last while. Source,
 * bid (no keys), count (keyed by item, sliding windows, for state in RocksDB), sink, each an
 * operator of its own for Weir.
 *
 * <p>Source of the query: Tucker, Tufte, Papadimos, Maier, "NEXMark: a benchmark for queries over
 * data streams", 2008. The bids are made up here.
 *
 * <p>The arguments {@code --trace}, {@code --slot-seconds}, {@code --scale}, {@code --at-end},
 * {@code --start-at}, {@code --seed}, {@code --work} and {@code --checkpoint-seconds} are those of
 * {@link Trips}; the others, with what holds where they are absent:
 *
 * <pre>
 * --items 1000
 * --window-seconds 10       the last while
 * --slide-seconds 2         every so often
 * --payload-bytes 100       width of a record beside its own fields
 * --service.bid-ms 2        mean service time of a bid at speed 1; of a bid in one window: 0
 * --scv.bid 0.5             its squared coefficient of variation; count: 0
 * --out DIR                 source.json goes there, and raw-*.csv: a line for each window, when it
 *                           is reported; its id is the number of windows that could have been before
 * --commit DIR              end of the window (Unix ms), item, its bids, all bids: a line each
 * </pre>
 */
public final class HotItems {
    private HotItems() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        long seed = settings.getLong("seed", 7);
        String directory = settings.get("out", null);
        String committed = settings.get("commit", null);
        TraceSource source =
                new TraceSource(
                        Arguments.schedule(settings, seed),
                        1,
                        settings.getInt("payload-bytes", 100),
                        seed,
                        settings.getLong("start-at", 0),
                        directory);
        Bid bid =
                new Bid(
                        Arguments.service(settings, "bid", 2, 0.5, seed),
                        settings.getInt("items", 1000),
                        Draws.bits(seed, "item".hashCode()));
        Duration window = Duration.ofSeconds(settings.getInt("window-seconds", 10));
        Duration slide = Duration.ofSeconds(settings.getInt("slide-seconds", 2));
        Service counting = Arguments.service(settings, "count", 0, 0, seed);
        Configuration configuration = new Configuration();
        // A window is reported when the watermark has passed it: late by half of this on average.
        configuration.setString("pipeline.auto-watermark-interval", "20 ms");
        StreamExecutionEnvironment env = Arguments.environment(settings, configuration, args);
        Arguments.refuseUnknown(settings, "HotItems.java");

        DataStream<Trip> records =
                Weir.pin(
                        env.fromSource(
                                        source,
                                        WatermarkStrategy.forMonotonousTimestamps(),
                                        "source",
                                        Types.POJO(Trip.class))
                                .uid("source"),
                        "source",
                        args);
        DataStream<Trip> bids =
                Weir.pin(
                        records.rebalance().process(Weir.timed(bid)).name("bid").uid("bid"),
                        "bid",
                        args);
        DataStream<Tuple3<Integer, Long, Long>> counts =
                Weir.pin(
                        bids.keyBy(each -> each.zone, Types.INT)
                                .window(SlidingEventTimeWindows.of(window, slide))
                                .aggregate(
                                        new Hottest.Counting(counting),
                                        new Hottest.Naming(),
                                        Types.LONG,
                                        Types.LONG,
                                        hot())
                                .name("count")
                                .uid("count"),
                        "count",
                        args);
        DataStream<String> lines =
                Weir.pin(
                        Weir.pin(
                                        counts.windowAll(TumblingEventTimeWindows.of(slide))
                                                .reduce(new Hottest.Most())
                                                .name("hottest")
                                                .uid("hottest"),
                                        "sink",
                                        args)
                                .process(Weir.latency(new Line(directory, slide)))
                                .name("line")
                                .uid("line"),
                        "sink",
                        args);
        if (committed != null) {
            Weir.pin(
                    lines.sinkTo(Committed.sink(committed, line -> line))
                            .name("commit")
                            .uid("commit"),
                    "sink",
                    args);
        }
        env.execute("hotitems");
    }

    private static TypeInformation<Tuple3<Integer, Long, Long>> hot() {
        return TypeInformation.of(new TypeHint<Tuple3<Integer, Long, Long>>() {});
    }

    /** Writes a window as a line. */
    private static final class Line extends ProcessFunction<Tuple3<Integer, Long, Long>, String> {
        private final String directory;
        private final long slide;
        private transient Arrivals arrivals;

        /**
         * @param directory where arrivals go, or null for nowhere
         */
        Line(String directory, Duration slide) {
            this.directory = directory;
            this.slide = slide.toMillis();
        }

        @Override
        public void open(OpenContext context) throws IOException {
            arrivals = new Arrivals(directory);
        }

        @Override
        public void processElement(
                Tuple3<Integer, Long, Long> hottest, Context context, Collector<String> out)
                throws IOException {
            // A window's results carry its last millisecond.
            long end = context.timestamp() + 1;
            arrivals.enter(end / slide, end, hottest.f0, hottest.f2);
            out.collect(end + " " + hottest.f0 + " " + hottest.f1 + " " + hottest.f2);
        }

        @Override
        public void close() throws IOException {
            if (arrivals != null) { // open failed
                arrivals.close();
            }
        }
    }
}
