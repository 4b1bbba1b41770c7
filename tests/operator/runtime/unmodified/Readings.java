import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.api.java.tuple.Tuple3;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.streaming.api.functions.windowing.ProcessAllWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * A job that knows nothing of Weir and gives no uid: chains that its author broke, a one-to-one edge
 * into keyed state, a side output, a window over all keys, a sink with a committer. Arguments:
 * records, records per second, milliseconds of sleep per record, folder, and, if not all records are
 * to take that long, how many.
 */
public class Readings {
    private static final OutputTag<Long> ODD = new OutputTag<Long>("odd") {};
    private static final KeySelector<Tuple3<Long, Long, Long>, Long> KEY =
            new KeySelector<>() {
                @Override
                public Long getKey(Tuple3<Long, Long, Long> counted) {
                    return counted.f0;
                }
            };

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        GeneratorFunction<Long, Long> count = index -> index;
        long sleep = Long.parseLong(args[2]);
        long slow = Long.parseLong(args[args.length > 4 ? 4 : 0]);
        SingleOutputStreamOperator<Tuple3<Long, Long, Long>> counted =
                env.fromSource(
                                new DataGeneratorSource<>(
                                        count,
                                        Long.parseLong(args[0]),
                                        RateLimiterStrategy.perSecond(Double.parseDouble(args[1])),
                                        Types.LONG),
                                WatermarkStrategy.noWatermarks(),
                                "readings")
                        .setParallelism(1)
                        .keyBy(reading -> reading % 64)
                        .process(new Count())
                        .name("count")
                        .disableChaining();
        counted.getSideOutput(ODD)
                .windowAll(GlobalWindows.create())
                .trigger(CountTrigger.of(100))
                .process(new Size())
                .name("odd window")
                .print();
        DataStreamUtils.reinterpretAsKeyedStream(counted, KEY, Types.LONG)
                .process(new Again())
                .name("again")
                .process(
                        new ProcessFunction<Long, String>() {
                            @Override
                            public void processElement(
                                    Long value, Context context, Collector<String> out)
                                    throws Exception {
                                Thread.sleep(value < slow ? sleep : 0);
                                out.collect(Long.toString(value));
                            }
                        })
                .name("work")
                .disableChaining()
                .sinkTo(
                        FileSink.forRowFormat(
                                        new Path(args[3]), new SimpleStringEncoder<String>())
                                .build())
                .name("files");
        env.execute("readings");
    }

    private static final class Count
            extends KeyedProcessFunction<Long, Long, Tuple3<Long, Long, Long>> {
        @Override
        public void processElement(
                Long value, Context context, Collector<Tuple3<Long, Long, Long>> out)
                throws Exception {
            ValueState<Long> seen =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("n", Types.LONG));
            long n = (seen.value() == null ? 0 : seen.value()) + 1;
            seen.update(n);
            if (value % 2 == 1) {
                context.output(ODD, value);
            }
            out.collect(Tuple3.of(context.getCurrentKey(), n, value));
        }
    }

    /** Counts again what comes in one to one: both counts are of the same subtask's state. */
    private static final class Again
            extends KeyedProcessFunction<Long, Tuple3<Long, Long, Long>, Long> {
        @Override
        public void processElement(
                Tuple3<Long, Long, Long> value, Context context, Collector<Long> out)
                throws Exception {
            ValueState<Long> seen =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("n", Types.LONG));
            long n = (seen.value() == null ? 0 : seen.value()) + 1;
            seen.update(n);
            if (n != value.f1) {
                throw new IllegalStateException("Expected " + value.f1 + " readings, got " + n);
            }
            out.collect(value.f2);
        }
    }

    private static final class Size
            extends ProcessAllWindowFunction<Long, Integer, GlobalWindow> {
        @Override
        public void process(Context context, Iterable<Long> values, Collector<Integer> out) {
            int size = 0;
            for (Long ignored : values) {
                size++;
            }
            out.collect(size);
        }
    }
}
