import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** A job as people have it: three vertices, keys, the cluster's parallelism, nothing of Weir. */
public final class StockJob {
    private StockJob() {}

    /** Builds the job and submits it; the first argument is the rate, records/s. */
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        DataGeneratorSource<Long> numbers =
                new DataGeneratorSource<>(
                        number -> number,
                        Long.MAX_VALUE,
                        RateLimiterStrategy.perSecond(
                                args.length > 0 ? Double.parseDouble(args[0]) : 40),
                        Types.LONG);
        env.fromSource(numbers, WatermarkStrategy.noWatermarks(), "Numbers")
                .keyBy(number -> number % 64)
                .map(new Work())
                .name("Score (slow)")
                .rebalance()
                .sinkTo(new DiscardingSink<>())
                .name("Nowhere");
        env.execute("stock");
    }

    /** Takes 10 ms for each record. */
    public static final class Work implements MapFunction<Long, Long> {
        @Override
        public Long map(Long number) throws Exception {
            Thread.sleep(10);
            return number;
        }
    }
}
