package example;

import dev.weir.Weir;
import java.time.Duration;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.function.Supplier;
import org.apache.flink.api.common.eventtime.Watermark;
import org.apache.flink.api.common.eventtime.WatermarkGenerator;
import org.apache.flink.api.common.eventtime.WatermarkOutput;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RichFlatMapFunction;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.Metric;
import org.apache.flink.metrics.MetricConfig;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.reporter.MetricReporter;
import org.apache.flink.metrics.reporter.MetricReporterFactory;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;
import org.apache.flink.util.OutputTag;

/**
 * Runs wrapped functions in a Flink of one process, ten records, and prints what they did and what
 * was counted, one `name value` per line.
 */
public final class WrapperJob {
    static final ConcurrentSkipListMap<String, Object> SEEN = new ConcurrentSkipListMap<>();
    static final ConcurrentSkipListMap<String, Supplier<Object>> METRICS =
            new ConcurrentSkipListMap<>();
    static final long FUTURE = 1L << 50; // ms, in 35,000 years
    static final OutputTag<String> ODD = new OutputTag<>("odd", Types.STRING);

    private WrapperJob() {}

    public static void main(String[] args) throws Exception {
        Configuration configuration = new Configuration();
        configuration.setString("metrics.reporter.kept.factory.class", Kept.class.getName());
        configuration.setString("execution.checkpointing.interval", "1 h"); // a final one only
        StreamExecutionEnvironment env =
                StreamExecutionEnvironment.createLocalEnvironment(1, configuration);
        SingleOutputStreamOperator<Long> numbered =
                env.fromSequence(0, 9)
                        .assignTimestampsAndWatermarks(
                                WatermarkStrategy.<Long>forGenerator(context -> new AtOnce())
                                        .withTimestampAssigner((value, time) -> at(value)))
                        .process(Weir.timed(new Twice()))
                        .name("twice")
                        .startNewChain();
        SingleOutputStreamOperator<String> counted =
                numbered.keyBy(value -> value % 2, Types.LONG)
                        .process(Weir.timed(new Counting()))
                        .name("counting");
        counted.getSideOutput(ODD).process(Weir.latency(new Last())).name("last");
        counted.process(Weir.timed((String value) -> value), Types.STRING)
                .name("before-slow")
                .process(Weir.latency(new Slow()))
                .name("slow");
        Weir.latency(counted).name("probe");
        env.execute();
        METRICS.forEach((name, value) -> System.out.println(name + " " + value.get()));
        SEEN.forEach((name, value) -> System.out.println(name + " " + value));
    }

    /** Half of the records are older than every bucket, half come from the future. */
    static long at(long value) {
        return value < 5 ? value : FUTURE + value;
    }

    /** A watermark behind every record, so that timers fire between the records. */
    static final class AtOnce implements WatermarkGenerator<Long> {
        @Override
        public void onEvent(Long value, long timestamp, WatermarkOutput output) {
            output.emitWatermark(new Watermark(timestamp));
        }

        @Override
        public void onPeriodicEmit(WatermarkOutput output) {}
    }

    static void count(String name) {
        SEEN.merge(name, 1L, (a, b) -> (long) a + (long) b);
    }

    static final class Twice extends RichFlatMapFunction<Long, Long> {
        @Override
        public void open(OpenContext context) {
            count("twice.open." + getRuntimeContext().getTaskInfo().getIndexOfThisSubtask());
        }

        @Override
        public void flatMap(Long value, Collector<Long> out) {
            out.collect(value);
            out.collect(value);
        }

        @Override
        public void close() {
            count("twice.close");
        }
    }

    static final class Counting extends KeyedProcessFunction<Long, Long, String> {
        private transient ValueState<Integer> state;

        @Override
        public void open(OpenContext context) {
            state =
                    getRuntimeContext()
                            .getState(new ValueStateDescriptor<>("count", Types.INT));
        }

        @Override
        public void processElement(Long value, Context context, Collector<String> out)
                throws Exception {
            int count = state.value() == null ? 1 : state.value() + 1;
            state.update(count);
            SEEN.put("counting.key." + context.getCurrentKey(), count);
            context.timerService().registerEventTimeTimer(context.timestamp());
            out.collect(context.getCurrentKey() + ":" + count);
            if (value % 2 == 1) {
                context.output(ODD, value.toString());
            }
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<String> out)
                throws InterruptedException {
            count("counting.timers");
            Thread.sleep(Duration.ofMillis(20).toMillis());
        }
    }

    static final class Last extends ProcessFunction<String, Void> implements CheckpointedFunction {
        private transient ListState<String> state;

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            state =
                    context.getOperatorStateStore()
                            .getListState(new ListStateDescriptor<>("last", Types.STRING));
            count("last.initialized");
        }

        @Override
        public void processElement(String value, Context context, Collector<Void> out) {
            count("last.records");
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            state.clear();
            SEEN.put("last.snapshot", true);
        }
    }

    /** Stands behind a timed function in its chain, so that the collector takes long. */
    static final class Slow extends ProcessFunction<String, Void> {
        @Override
        public void processElement(String value, Context context, Collector<Void> out)
                throws InterruptedException {
            Thread.sleep(Duration.ofMillis(20).toMillis());
        }
    }

    /** Keeps every metric, beyond the end of the job. */
    public static final class Kept implements MetricReporter, MetricReporterFactory {
        @Override
        public MetricReporter createMetricReporter(java.util.Properties properties) {
            return new Kept();
        }

        @Override
        public void notifyOfAddedMetric(Metric metric, String name, MetricGroup group) {
            String label = group.getAllVariables().get("<operator_name>") + "." + name;
            String bound = group.getAllVariables().get("<le>");
            label += bound == null ? "" : "." + bound;
            if (!name.startsWith("weir_")) {
                return;
            }
            if (metric instanceof Counter) {
                METRICS.put(label, ((Counter) metric)::getCount);
            } else if (metric instanceof Gauge) {
                METRICS.put(label, ((Gauge<?>) metric)::getValue);
            }
        }

        @Override
        public void notifyOfRemovedMetric(Metric metric, String name, MetricGroup group) {}

        @Override
        public void open(MetricConfig config) {}

        @Override
        public void close() {}
    }
}
