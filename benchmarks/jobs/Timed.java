import static java.util.concurrent.TimeUnit.MILLISECONDS;

import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;
import java.util.stream.Stream;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource.NumberSequenceSplit;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiter;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.table.api.bridge.java.StreamTableEnvironment;
import org.apache.flink.table.functions.ScalarFunction;

/**
 * Jobs whose rows say when their record was made and when a sink wrote it. Work is waiting, so that
 * several replicas need no more cores than there are. Arguments: the job, the folder of its output,
 * when the trace begins (Unix ms), seconds until the rate rises and until it falls, records/s of
 * before and after, records/s in between.
 */
public final class Timed {
    private static final AsyncFunction<Order, Order> CALL =
            (order, result) ->
                    CompletableFuture.delayedExecutor(10 + order.id % 50, MILLISECONDS)
                            .execute(() -> result.complete(List.of(order)));

    public static class Order {
        public long id;
        public long made;

        static Order of(long id, long made) {
            Order order = new Order();
            order.id = id;
            order.made = made;
            return order;
        }
    }

    public static void main(String[] args) throws Exception {
        var env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.enableCheckpointing(5000);
        double[] trace = Stream.of(args).skip(2).mapToDouble(Double::valueOf).toArray();
        if (args[0].equals("join")) {
            join(env, args[1], trace);
        } else if (args[0].equals("calls")) {
            calls(env, args[1], trace);
        } else if (args[0].equals("lookups")) {
            lookups(env, args[1], trace);
        } else if (args[0].equals("hot")) {
            hot(env, args[1], trace);
        } else {
            fan(env, args[1], trace);
        }
        env.execute(args[0]);
    }

    /** SQL: two streams are joined, and a function works on what comes out. */
    private static void join(StreamExecutionEnvironment env, String out, double[] trace) {
        var tables = StreamTableEnvironment.create(env);
        tables.createTemporaryView("orders", orders(env, "orders", trace));
        tables.createTemporaryView("payments", orders(env, "payments", trace));
        tables.createTemporarySystemFunction("price", Price.class);
        String made = "CASE WHEN o.made > p.made THEN o.made ELSE p.made END";
        String joined = "orders o JOIN payments p ON o.id = p.id";
        tables.toDataStream(tables.sqlQuery("SELECT price(o.id), " + made + " FROM " + joined))
                .map(row -> Order.of(row.getFieldAs(0), row.getFieldAs(1)))
                .sinkTo(files(out + "/joined"));
    }

    /** A call of a service for each record, in the chain of the source, then work by key. */
    private static void calls(StreamExecutionEnvironment env, String out, double[] trace) {
        AsyncDataStream.unorderedWait(orders(env, "orders", trace), CALL, 10, TimeUnit.SECONDS)
                .returns(Order.class)
                .keyBy(order -> order.id % 500)
                .map(order -> work(order, 5))
                .sinkTo(files(out + "/called"));
    }

    /** Calls whose answers keep the order of the records, behind an edge by key, then work. */
    private static void lookups(StreamExecutionEnvironment env, String out, double[] trace) {
        var keyed = orders(env, "orders", trace).keyBy(order -> order.id % 500);
        AsyncDataStream.orderedWait(keyed, CALL, 10, TimeUnit.SECONDS)
                .returns(Order.class)
                .map(order -> work(order, 4))
                .sinkTo(files(out + "/found"));
    }

    /** One stream to two functions, a slow and a quick one, each with a sink. */
    private static void fan(StreamExecutionEnvironment env, String out, double[] trace) {
        DataStream<Order> orders = orders(env, "orders", trace);
        orders.keyBy(order -> order.id % 500)
                .map(order -> work(order, 6))
                .sinkTo(files(out + "/slow"));
        orders.rebalance().map(order -> work(order, 1)).sinkTo(files(out + "/quick"));
    }

    /** Work by eight keys, of which the first has 30 % of the records and the others 10 % each. */
    private static void hot(StreamExecutionEnvironment env, String out, double[] trace) {
        orders(env, "orders", trace)
                .keyBy(order -> Math.max(0, tenth(order.id) - 2))
                .map(order -> work(order, 5))
                .uid("work")
                .sinkTo(files(out + "/hot"));
    }

    /** Returns 0 to 9, each as often, in no order and apart from how long the work takes. */
    private static int tenth(long id) {
        return (int) ((id * 0xD1B54A32D192ED03L >>> 40) % 10);
    }

    private static DataStream<Order> orders(
            StreamExecutionEnvironment env, String name, double[] trace) {
        GeneratorFunction<Long, Order> make = id -> Order.of(id, System.currentTimeMillis());
        RateLimiterStrategy<NumberSequenceSplit> limits = parallelism -> limit(trace, parallelism);
        var type = TypeInformation.of(Order.class);
        var source = new DataGeneratorSource<>(make, Long.MAX_VALUE, limits, type);
        return env.fromSource(source, WatermarkStrategy.noWatermarks(), name);
    }

    /** Says when each record may be made, by the clock: a restart does not begin the trace anew. */
    private static RateLimiter<NumberSequenceSplit> limit(double[] trace, int parallelism) {
        double[] next = {0};
        return records -> {
            double now = System.currentTimeMillis(), at = (now - trace[0]) / 1000;
            double rate = at >= trace[1] && at < trace[2] ? trace[4] : trace[3];
            next[0] = Math.max(next[0], now - 1000) + records * 1000 * parallelism / rate;
            long wait = (long) Math.max(0, next[0] - now);
            return new CompletableFuture<Void>().completeOnTimeout(null, wait, MILLISECONDS);
        };
    }

    private static FileSink<Order> files(String folder) {
        return FileSink.<Order>forRowFormat(
                        new Path(folder),
                        (order, file) -> {
                            String times = order.made + "," + System.currentTimeMillis();
                            file.write((order.id + "," + times + "\n").getBytes());
                        })
                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                .build();
    }

    /** Works for 60 to 140 % of a time. */
    static Order work(Order order, double millis) {
        double share = 0.6 + 0.8 * ((order.id * 0x9E3779B97F4A7C15L >>> 40) % 1000) / 1000;
        long end = System.nanoTime() + (long) (share * millis * 1e6);
        for (long left = 1; left > 0; left = end - System.nanoTime()) {
            LockSupport.parkNanos(left);
        }
        return order;
    }

    public static class Price extends ScalarFunction {
        public long eval(long id) {
            return work(Order.of(id, 0), 5).id;
        }
    }
}
