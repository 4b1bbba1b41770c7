import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringEncoder;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.file.sink.FileSink;
import org.apache.flink.core.fs.Path;
import org.apache.flink.streaming.api.datastream.AsyncDataStream;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamUtils;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.async.AsyncFunction;
import org.apache.flink.streaming.api.functions.async.ResultFuture;
import org.apache.flink.streaming.api.functions.sink.filesystem.rollingpolicies.OnCheckpointRollingPolicy;
import org.apache.flink.streaming.api.functions.windowing.ProcessAllWindowFunction;
import org.apache.flink.streaming.api.windowing.assigners.GlobalWindows;
import org.apache.flink.streaming.api.windowing.triggers.CountTrigger;
import org.apache.flink.streaming.api.windowing.triggers.PurgingTrigger;
import org.apache.flink.streaming.api.windowing.windows.GlobalWindow;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * A job of unlike functions that knows nothing of Weir and gives no uid: a union of three sources,
 * one of the old kind and two with a maximum parallelism of 1, asynchronous calls, a pair of
 * co-located functions, a count by key with a side output, a second count that takes the first one's
 * partitions as they are (a forward edge into keyed state), a window over all of the side output, and
 * files that are committed with checkpoints. It never ends. Arguments: folders for the numbers with
 * both counts, and for the windows; numbers per second of each source.
 */
public class Kinds {
    static final int SOURCES = 3;
    private static final int KEYS = 64;
    private static final int WINDOW = 50;
    private static final OutputTag<Long> ODD = new OutputTag<Long>("odd") {};

    public static void main(String[] args) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        double rate = Double.parseDouble(args[2]);
        DataStream<Long> numbers =
                generate(env, 0, rate).union(generate(env, 1, rate), OldSource.add(env, rate));
        SingleOutputStreamOperator<Long> asked =
                AsyncDataStream.unorderedWait(numbers, new Ask(), 60, TimeUnit.SECONDS)
                        .name("ask");
        SingleOutputStreamOperator<Long> left =
                asked.rebalance().map(number -> number).returns(Types.LONG).name("left");
        left.disableChaining().getTransformation().setCoLocationGroupKey("pair");
        SingleOutputStreamOperator<Long> right =
                left.rebalance().map(number -> number).returns(Types.LONG).name("right");
        right.disableChaining().getTransformation().setCoLocationGroupKey("pair");
        SingleOutputStreamOperator<String> counted =
                right.keyBy(number -> number % KEYS).process(new Count()).name("count");
        counted.disableChaining();
        SingleOutputStreamOperator<String> again =
                DataStreamUtils.reinterpretAsKeyedStream(
                                counted,
                                line -> Long.parseLong(line.substring(0, line.indexOf(','))) % KEYS,
                                Types.LONG)
                        .process(new Again())
                        .name("again");
        write(again.disableChaining(), args[0], "numbers");
        write(
                counted.getSideOutput(ODD)
                        .windowAll(GlobalWindows.create())
                        .trigger(PurgingTrigger.of(CountTrigger.of(WINDOW)))
                        .process(new Join())
                        .name("odd window"),
                args[1],
                "windows");
        env.execute("kinds");
    }

    private static DataStream<Long> generate(
            StreamExecutionEnvironment env, int place, double rate) {
        GeneratorFunction<Long, Long> count = index -> index * SOURCES + place;
        return env.fromSource(
                        new DataGeneratorSource<>(
                                count,
                                Long.MAX_VALUE,
                                RateLimiterStrategy.perSecond(rate),
                                Types.LONG),
                        WatermarkStrategy.noWatermarks(),
                        "generator " + place)
                .setParallelism(1)
                .setMaxParallelism(1);
    }

    private static void write(DataStream<String> lines, String folder, String name) {
        lines.sinkTo(
                        FileSink.forRowFormat(
                                        new Path(folder), new SimpleStringEncoder<String>())
                                .withRollingPolicy(OnCheckpointRollingPolicy.build())
                                .build())
                .name(name);
    }

    /** Answers after up to 20 ms, in no order. */
    private static final class Ask implements AsyncFunction<Long, Long> {
        @Override
        public void asyncInvoke(Long number, ResultFuture<Long> result) {
            CompletableFuture.delayedExecutor(
                            ThreadLocalRandom.current().nextInt(20), TimeUnit.MILLISECONDS)
                    .execute(() -> result.complete(java.util.List.of(number)));
        }
    }

    /** Writes the number, and its place among those of its key. */
    private static final class Count extends KeyedProcessFunction<Long, Long, String> {
        @Override
        public void processElement(Long number, Context context, Collector<String> out)
                throws Exception {
            ValueState<Long> seen =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("n", Types.LONG));
            long n = (seen.value() == null ? 0 : seen.value()) + 1;
            seen.update(n);
            if (number % 2 == 1) {
                context.output(ODD, number);
            }
            out.collect(number + "," + n);
        }
    }

    /** Counts once more, by the same keys, and writes that count behind the first. */
    private static final class Again extends KeyedProcessFunction<Long, String, String> {
        @Override
        public void processElement(String line, Context context, Collector<String> out)
                throws Exception {
            ValueState<Long> seen =
                    getRuntimeContext().getState(new ValueStateDescriptor<>("again", Types.LONG));
            long n = (seen.value() == null ? 0 : seen.value()) + 1;
            seen.update(n);
            out.collect(line + "," + n);
        }
    }

    /** Writes the numbers of a window in a line. */
    private static final class Join extends ProcessAllWindowFunction<Long, String, GlobalWindow> {
        @Override
        public void process(Context context, Iterable<Long> numbers, Collector<String> out) {
            StringBuilder line = new StringBuilder();
            for (Long number : numbers) {
                line.append(line.length() == 0 ? "" : " ").append(number);
            }
            out.collect(line.toString());
        }
    }
}
