import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.RichMapFunction;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/**
 * A job whose work takes another time with several subtasks, as one does whose state then fits into
 * its caches. Arguments: records per second, milliseconds per record alone, and with several.
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
                .map(new Work(Long.parseLong(args[1]), Long.parseLong(args[2])))
                .name("score")
                .rebalance()
                .sinkTo(new DiscardingSink<>())
                .setParallelism(1)
                .name("nowhere");
        env.execute("scored");
    }

    private static final class Work extends RichMapFunction<Long, Long> {
        private final long alone;
        private final long together;

        private Work(long alone, long together) {
            this.alone = alone;
            this.together = together;
        }

        @Override
        public Long map(Long number) throws Exception {
            int subtasks = getRuntimeContext().getTaskInfo().getNumberOfParallelSubtasks();
            Thread.sleep(subtasks == 1 ? alone : together);
            return number;
        }
    }
}
