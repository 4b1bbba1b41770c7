import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A job that works for a while on each record. Arguments: records per second, milliseconds per
 * record.
 */
public final class Scored {
    private Scored() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        GeneratorFunction<Long, Long> count = index -> index;
        env.fromSource(
                        new DataGeneratorSource<>(
                                count,
                                Long.MAX_VALUE,
                                RateLimiterStrategy.perSecond(Double.parseDouble(args[0])),
                                Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "numbers")
                .setParallelism(1)
                .keyBy(number -> number % 64)
                .map(new Work(Long.parseLong(args[1])))
                .name("score")
                .rebalance()
                .sinkTo(new DiscardingSink<>())
                .setParallelism(1)
                .name("nowhere");
        env.execute("scored");
    }

    private static final class Work implements MapFunction<Long, Long> {
        private final long takes;

        private Work(long takes) {
            this.takes = takes;
        }

        @Override
        public Long map(Long number) throws Exception {
            Thread.sleep(takes);
            return number;
        }
    }
}
