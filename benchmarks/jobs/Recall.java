package example;

import dev.weir.Weir;
import java.util.SplittableRandom;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.PrimitiveArrayTypeInfo;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.ParameterTool;

/**
 * A job whose state may be larger than its memory: the first records leave a value under each key,
 * the later ones read values back, some keys more often than others, and write every tenth again.
 *
 * <pre>
 * --rate 4000         records/s
 * --keys 200000       values, one under each key
 * --value-bytes 2048  bytes of each, which no compression shrinks
 * --skew 2            power of an even draw: 1 reads all keys alike, 2 half from a quarter of them
 * </pre>
 */
public final class Recall {
    private static final int WRITTEN = 10;

    private Recall() {}

    /** Builds the job and submits it. */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        long keys = settings.getLong("keys", 200_000);
        double skew = settings.getDouble("skew", 2);
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        SingleOutputStreamOperator<Long> numbers =
                env.fromSource(
                        new DataGeneratorSource<>(
                                index -> index,
                                Long.MAX_VALUE,
                                RateLimiterStrategy.perSecond(settings.getDouble("rate", 4000)),
                                Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "source");
        DataStream<Long> source = Weir.pin(numbers.uid("source"), "source", args);
        DataStream<Long> recalled =
                Weir.pin(
                        source.keyBy(number -> keyOf(number, keys, skew), Types.LONG)
                                .process(
                                        Weir.timed(
                                                new Recalling(
                                                        keys,
                                                        settings.getInt("value-bytes", 2048))))
                                .name("recall")
                                .uid("recall"),
                        "recall",
                        args);
        Weir.pin(
                recalled.process(Weir.latency(new Ignore())).name("sink").uid("sink"),
                "recall",
                args);
        env.execute("recall");
    }

    private static long keyOf(long number, long keys, double skew) {
        if (number < keys) {
            return number;
        }
        double even = (Draws.bits(number, 1) >>> 11) * 0x1.0p-53;
        return (long) (keys * Math.pow(even, skew));
    }

    /** Writes and reads values. */
    private static final class Recalling extends KeyedProcessFunction<Long, Long, Long> {
        private static final long serialVersionUID = 1;

        private final long keys;
        private final int bytes;
        private transient ValueState<byte[]> value;

        Recalling(long keys, int bytes) {
            this.keys = keys;
            this.bytes = bytes;
        }

        @Override
        public void open(OpenContext context) {
            value =
                    getRuntimeContext()
                            .getState(
                                    new ValueStateDescriptor<>(
                                            "value",
                                            PrimitiveArrayTypeInfo.BYTE_PRIMITIVE_ARRAY_TYPE_INFO));
        }

        @Override
        public void processElement(Long number, Context context, Collector<Long> out)
                throws Exception {
            byte[] before = number < keys ? null : value.value();
            if (before == null || number % WRITTEN == 0) {
                byte[] written = new byte[bytes];
                new SplittableRandom(number).nextBytes(written);
                value.update(written);
            }
            out.collect(before == null ? 0L : before.length);
        }
    }

    /** The sink: its latency is what Weir sees as the job's. */
    private static final class Ignore extends ProcessFunction<Long, Long> {
        private static final long serialVersionUID = 1;

        @Override
        public void processElement(Long length, Context context, Collector<Long> out) {}
    }
}
