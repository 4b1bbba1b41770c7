import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.lib.NumberSequenceSource;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.util.Collector;

/**
 * A job that knows nothing of Weir, gives no uid and fixes no parallelism: it counts numbers by key,
 * into files. Arguments: numbers, milliseconds of sleep per number, folder.
 */
public class Numbers {
    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        long sleep = Long.parseLong(args[1]);
        env.fromSource(
                        new NumberSequenceSource(0, Long.parseLong(args[0]) - 1),
                        WatermarkStrategy.noWatermarks(),
                        "numbers")
                .keyBy(number -> number % 64)
                .process(new Count(sleep))
                .sinkTo(
                        FileSink.forRowFormat(
                                        new Path(args[2]), new SimpleStringEncoder<String>())
                                .build());
        env.execute("numbers");
    }

    private static final class Count extends KeyedProcessFunction<Long, Long, String> {
        private final long sleep;
        private transient ValueState<Long> counted;

        Count(long sleep) {
            this.sleep = sleep;
        }

        @Override
        public void open(org.apache.flink.api.common.functions.OpenContext context) {
            counted =
                    getRuntimeContext()
                            .getState(new ValueStateDescriptor<>("counted", Types.LONG));
        }

        @Override
        public void processElement(Long number, Context context, Collector<String> out)
                throws Exception {
            Thread.sleep(sleep);
            long before = counted.value() == null ? 0 : counted.value();
            counted.update(before + 1);
            out.collect(context.getCurrentKey() + " " + before + " " + number);
        }
    }
}
