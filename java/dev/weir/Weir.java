package dev.weir;

import java.io.IOException;
import java.io.Serializable;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.concurrent.TimeUnit;
import org.apache.flink.api.common.functions.FlatMapFunction;
import org.apache.flink.api.common.functions.Function;
import org.apache.flink.api.common.functions.InvalidTypesException;
import org.apache.flink.api.common.functions.MapFunction;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.functions.RuntimeContext;
import org.apache.flink.api.common.functions.util.FunctionUtils;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.state.CheckpointListener;
import org.apache.flink.api.common.typeinfo.TypeInformation;
import org.apache.flink.api.dag.Transformation;
import org.apache.flink.api.java.typeutils.MissingTypeInfo;
import org.apache.flink.api.java.typeutils.ResultTypeQueryable;
import org.apache.flink.api.java.typeutils.TypeExtractor;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.ReadableConfig;
import org.apache.flink.metrics.Counter;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.datastream.DataStream;
import org.apache.flink.streaming.api.datastream.DataStreamSink;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * What a Flink job needs to be scaled operator by operator, one line for each thing.
 *
 * <pre>{@code
 * Weir.pin(trips.rebalance().process(Weir.timed(new Match())).uid("match"), "match")
 * }</pre>
 *
 * <p>A job that follows the conventions by itself (a slot sharing group per operator whose spec
 * asks for the external resource {@code op-NAME} and for the managed memory that the configuration
 * names as {@code weir.managed-memory.NAME}, parallelism from the program arguments) needs nothing
 * of this file. It depends on Flink alone.
 *
 * <p>All counters are monotone within one attempt of a task and begin at 0 with the next.
 */
public final class Weir {
    /** Upper bounds of the latency buckets, ms; the bucket without a bound is the count itself. */
    private static final int[] BUCKETS_MS = {
        1, 2, 5, 10, 20, 30, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1000, 1500, 2000, 3000,
        5000, 10000, 20000, 30000, 60000
    };

    private static final String PREFIX = "--weir.";

    private Weir() {}

    /**
     * Returns the parallelism that Weir chose for an operator.
     *
     * @param args the program's arguments, where {@code --weir.parallelism.NAME N} is looked for
     *     before the configuration that the job is submitted with
     * @param otherwise the answer where Weir says nothing
     */
    public static int parallelism(String[] args, String operator, int otherwise) {
        int chosen = configuration().getOptional(chosenParallelism(operator)).orElse(otherwise);
        return positive(args, "parallelism." + operator, chosen);
    }

    /** Returns the job's maximum parallelism from {@code --weir.maxParallelism N}. */
    public static int maxParallelism(String[] args, int otherwise) {
        return positive(args, "maxParallelism", otherwise);
    }

    private static int positive(String[] args, String name, int otherwise) {
        for (int i = 0; i < args.length; i++) {
            if (args[i].equals(PREFIX + name)) {
                String value = i + 1 < args.length ? args[i + 1] : "nothing";
                if (!value.matches("[1-9][0-9]{0,8}")) {
                    throw new IllegalArgumentException(
                            "Expected a whole number >= 1 after " + args[i] + ", got " + value);
                }
                return Integer.parseInt(value);
            }
        }
        return otherwise;
    }

    /**
     * Gives an operator its parallelism and its own TaskManagers with their managed memory, as Weir
     * chose them in the configuration that the job is submitted with.
     *
     * <p>Several chained functions form one operator if they are pinned under one name. Started
     * without Weir, the job asks for no external resource and runs on any Flink cluster.
     */
    public static <T> SingleOutputStreamOperator<T> pin(
            SingleOutputStreamOperator<T> stream, String operator) {
        return pin(stream, operator, new String[0]);
    }

    /** Does the same for a sink; what is chained before it is pinned under the same name. */
    public static <T> DataStreamSink<T> pin(DataStreamSink<T> sink, String operator) {
        return pin(sink, operator, new String[0]);
    }

    /** Does the same where program arguments such as {@code --weir.parallelism.NAME N} count. */
    public static <T> SingleOutputStreamOperator<T> pin(
            SingleOutputStreamOperator<T> stream, String operator, String[] args) {
        return stream.setParallelism(parallelism(args, operator, 1))
                .slotSharingGroup(group(operator, args));
    }

    /** Does the same for a sink where program arguments count. */
    public static <T> DataStreamSink<T> pin(
            DataStreamSink<T> sink, String operator, String[] args) {
        return sink.setParallelism(parallelism(args, operator, 1))
                .slotSharingGroup(group(operator, args));
    }

    /**
     * Does the same for the result of a query of the Table API, which is made of many operators:
     * with it, all are pinned that lead to it and are not pinned yet.
     */
    public static <T> DataStream<T> pinQuery(DataStream<T> result, String operator) {
        return pinQuery(result, operator, new String[0]);
    }

    /** Does the same where program arguments count. */
    public static <T> DataStream<T> pinQuery(DataStream<T> result, String operator, String[] args) {
        SlotSharingGroup group = group(operator, args);
        pinInputs(result.getTransformation(), group, parallelism(args, operator, 1));
        return result;
    }

    private static void pinInputs(Transformation<?> step, SlotSharingGroup group, int parallelism) {
        if (step.getSlotSharingGroup().isPresent()) {
            return;
        }
        step.setSlotSharingGroup(group);
        if (step.getMaxParallelism() != 1) { // an aggregate over everything
            step.setParallelism(parallelism);
        }
        for (Transformation<?> input : step.getInputs()) {
            pinInputs(input, group, parallelism);
        }
    }

    private static SlotSharingGroup group(String operator, String[] args) {
        SlotSharingGroup.Builder group = SlotSharingGroup.newBuilder(operator);
        ReadableConfig configuration = configuration();
        boolean underWeir = configuration.getOptional(chosenParallelism(operator)).isPresent();
        for (String arg : args) {
            underWeir |= arg.startsWith(PREFIX);
        }
        if (!underWeir) {
            return group.build();
        }
        // Flink wants CPU and heap beside the resource; every TaskManager has as much. What is not
        // asked for is not had: without managed memory RocksDB has no cache and SQL does not start.
        group.setCpuCores(1).setTaskHeapMemoryMB(64).setExternalResource("op-" + operator, 1);
        configuration.getOptional(managedMemory(operator)).ifPresent(group::setManagedMemory);
        return group.build();
    }

    private static ReadableConfig configuration() {
        return StreamExecutionEnvironment.getExecutionEnvironment().getConfiguration();
    }

    private static ConfigOption<Integer> chosenParallelism(String operator) {
        return ConfigOptions.key("weir.parallelism." + operator).intType().noDefaultValue();
    }

    private static ConfigOption<MemorySize> managedMemory(String operator) {
        return ConfigOptions.key("weir.managed-memory." + operator).memoryType().noDefaultValue();
    }

    /**
     * Counts the service time of a function: {@code weir_service_n}, {@code weir_service_us_sum}
     * and {@code weir_service_us2_sum} (microseconds, and their squares). The time inside the
     * collector is left out: it is back-pressure, or the work of a chained function. The time in
     * {@code onTimer} counts as part of the next record's, which waits for it.
     *
     * <p>Where records carry a timestamp, also their age on entry: {@code weir_age_n}, {@code
     * weir_age_us_sum}. Timestamps are whole milliseconds, so an age is exact to 1 ms at best: 0.5
     * ms too long on average where the source truncates, unbiased where it rounds.
     */
    public static <I, O> ProcessFunction<I, O> timed(ProcessFunction<I, O> function) {
        return new MeteredProcess<>(function, new Meter(false));
    }

    /** Counts the service time of a keyed function; see {@link #timed(ProcessFunction)}. */
    public static <K, I, O> KeyedProcessFunction<K, I, O> timed(
            KeyedProcessFunction<K, I, O> function) {
        return new MeteredKeyedProcess<>(function);
    }

    /** Counts the service time of a map function, to be given to {@code process}. */
    public static <I, O> ProcessFunction<I, O> timed(MapFunction<I, O> function) {
        return new Metered<>(function, MapFunction.class, new Meter(false)) {
            @Override
            void serve(I value, Context context, Collector<O> out) throws Exception {
                out.collect(function.map(value));
            }
        };
    }

    /** Counts the service time of a flat map function, to be given to {@code process}. */
    public static <I, O> ProcessFunction<I, O> timed(FlatMapFunction<I, O> function) {
        return new Metered<>(function, FlatMapFunction.class, new Meter(false)) {
            @Override
            void serve(I value, Context context, Collector<O> out) throws Exception {
                function.flatMap(value, out);
            }
        };
    }

    /**
     * Counts, beside everything that {@code timed} counts, how old records are when a sink has
     * dealt with them: {@code weir_latency_n}, {@code weir_latency_us_sum}, and {@code
     * weir_latency_bucket} with the label {@code le}, cumulative, in ms. Age begins at the record's
     * timestamp, so that waiting at the source counts where it is the time at which the record was
     * due.
     */
    public static <I, O> ProcessFunction<I, O> latency(ProcessFunction<I, O> function) {
        return new MeteredProcess<>(function, new Meter(true));
    }

    /** Counts the same on the way into a connector's sink, which cannot be wrapped. */
    public static <T> SingleOutputStreamOperator<T> latency(DataStream<T> stream) {
        return stream.process(latency(new PassOn<T>()), stream.getType());
    }

    /** Returns how fast this replica is now, relative to the reference speed 1. */
    public static double speed() {
        return Speed.OF_REPLICA.now();
    }

    /**
     * The speed in a file that others rewrite (by renaming, so that it is never seen half-written),
     * read about once a second. Whatever is not a positive number leaves the last good value.
     */
    public static final class Speed {
        private static final long REREAD_NANOS = TimeUnit.SECONDS.toNanos(1);
        private static final Speed OF_REPLICA = ofReplica();

        private final Path file;
        private double speed = 1;
        private long read;

        /**
         * @param file the file, or null for the constant 1
         */
        public Speed(Path file) {
            this.file = file;
            this.read = System.nanoTime() - REREAD_NANOS;
        }

        private static Speed ofReplica() {
            String file = System.getenv("WEIR_SPEED_FILE");
            return new Speed(file == null ? null : Path.of(file));
        }

        /** Returns the present speed. */
        public synchronized double now() {
            if (file != null && System.nanoTime() - read >= REREAD_NANOS) {
                reread();
            }
            return speed;
        }

        /** Reads the file now, however recently it was read. */
        public synchronized void reread() {
            read = System.nanoTime();
            try {
                double value = Double.parseDouble(Files.readString(file).trim());
                if (value > 0 && value < Double.POSITIVE_INFINITY) {
                    speed = value;
                }
            } catch (IOException | NumberFormatException unreadable) {
                // Absent or being written: the last good value holds until the next reading.
            }
        }
    }

    /** The counters of one function. */
    private static final class Meter implements Serializable {
        private final boolean atSink;
        private transient Counter serviceCount;
        private transient Counter serviceSum;
        private transient Counter ageCount;
        private transient Counter ageSum;
        private transient Counter latencyCount;
        private transient Counter latencySum;
        private transient Counter[] buckets;
        private transient long timerNanos; // since the last record
        // A double: squares of microseconds would overflow a long within minutes of overload.
        private transient double serviceSquares;

        Meter(boolean atSink) {
            this.atSink = atSink;
        }

        void open(MetricGroup group) {
            serviceCount = group.counter("weir_service_n");
            serviceSum = group.counter("weir_service_us_sum");
            group.gauge("weir_service_us2_sum", (Gauge<Double>) () -> serviceSquares);
            ageCount = group.counter("weir_age_n");
            ageSum = group.counter("weir_age_us_sum");
            if (!atSink) {
                return;
            }
            latencyCount = group.counter("weir_latency_n");
            latencySum = group.counter("weir_latency_us_sum");
            buckets = new Counter[BUCKETS_MS.length];
            for (int i = 0; i < buckets.length; i++) {
                String bound = String.valueOf(BUCKETS_MS[i]);
                buckets[i] = group.addGroup("le", bound).counter("weir_latency_bucket");
            }
        }

        void entered(Long timestamp) {
            if (timestamp != null) {
                ageCount.inc();
                ageSum.inc(micros(timestamp));
            }
        }

        void fired(long nanos) {
            timerNanos += nanos;
        }

        void served(long nanos, Long timestamp) {
            long service = (nanos + timerNanos + 500) / 1000;
            timerNanos = 0;
            serviceCount.inc();
            serviceSum.inc(service);
            serviceSquares += (double) service * service;
            if (atSink && timestamp != null) {
                arrived(micros(timestamp));
            }
        }

        private void arrived(long latency) {
            latencyCount.inc();
            latencySum.inc(latency);
            for (int i = buckets.length - 1; i >= 0 && latency <= BUCKETS_MS[i] * 1000L; i--) {
                buckets[i].inc();
            }
        }

        /** Returns the age of a timestamp; one in the future (clocks differ) is 0 old. */
        private static long micros(long timestamp) {
            Instant now = Instant.now();
            long micros = now.getEpochSecond() * 1_000_000 + now.getNano() / 1000;
            return Math.max(0, micros - timestamp * 1000);
        }
    }

    /** A collector that knows how long it held up its caller. */
    private static final class Outlet<O> implements Collector<O> {
        private Collector<O> target;
        private long nanos;

        Outlet<O> into(Collector<O> collector) {
            target = collector;
            nanos = 0;
            return this;
        }

        @Override
        public void collect(O value) {
            long start = System.nanoTime();
            target.collect(value);
            nanos += System.nanoTime() - start;
        }

        @Override
        public void close() {
            target.close();
        }
    }

    /** Hands on to a wrapped function, of any kind, what is not a record. */
    private interface Wrapper<O>
            extends CheckpointedFunction, CheckpointListener, ResultTypeQueryable<O> {
        Function wrapped();

        /** The class that declares the function's type parameters, the output's the last. */
        Class<?> kind();

        @Override
        default void snapshotState(FunctionSnapshotContext context) throws Exception {
            if (wrapped() instanceof CheckpointedFunction) {
                ((CheckpointedFunction) wrapped()).snapshotState(context);
            }
        }

        @Override
        default void initializeState(FunctionInitializationContext context) throws Exception {
            if (wrapped() instanceof CheckpointedFunction) {
                ((CheckpointedFunction) wrapped()).initializeState(context);
            }
        }

        @Override
        default void notifyCheckpointComplete(long checkpoint) throws Exception {
            if (wrapped() instanceof CheckpointListener) {
                ((CheckpointListener) wrapped()).notifyCheckpointComplete(checkpoint);
            }
        }

        @Override
        default void notifyCheckpointAborted(long checkpoint) throws Exception {
            if (wrapped() instanceof CheckpointListener) {
                ((CheckpointListener) wrapped()).notifyCheckpointAborted(checkpoint);
            }
        }

        @Override
        @SuppressWarnings("unchecked") // a missing type stands for every type until `.returns`
        default TypeInformation<O> getProducedType() {
            try {
                int last = kind().getTypeParameters().length - 1;
                return TypeExtractor.createTypeInfo(wrapped(), kind(), wrapped().getClass(), last);
            } catch (InvalidTypesException erased) {
                return (TypeInformation<O>) new MissingTypeInfo(wrapped().toString(), erased);
            }
        }
    }

    /** A function of any unkeyed kind as a process function, with its time counted. */
    private abstract static class Metered<I, O> extends ProcessFunction<I, O>
            implements Wrapper<O> {
        private final Function function;
        private final Class<?> kind;
        final Meter meter;
        transient Outlet<O> outlet;

        Metered(Function function, Class<?> kind, Meter meter) {
            this.function = function;
            this.kind = kind;
            this.meter = meter;
        }

        /** Does the work for one record. */
        abstract void serve(I value, Context context, Collector<O> out) throws Exception;

        @Override
        public void processElement(I value, Context context, Collector<O> out) throws Exception {
            meter.entered(context.timestamp());
            outlet.into(out);
            long start = System.nanoTime();
            serve(value, context, outlet);
            meter.served(System.nanoTime() - start - outlet.nanos, context.timestamp());
        }

        @Override
        public Function wrapped() {
            return function;
        }

        @Override
        public Class<?> kind() {
            return kind;
        }

        @Override
        public void setRuntimeContext(RuntimeContext context) {
            super.setRuntimeContext(context);
            FunctionUtils.setFunctionRuntimeContext(function, context);
        }

        @Override
        public void open(OpenContext context) throws Exception {
            meter.open(getRuntimeContext().getMetricGroup());
            outlet = new Outlet<>();
            FunctionUtils.openFunction(function, context);
        }

        @Override
        public void close() throws Exception {
            FunctionUtils.closeFunction(function);
        }
    }

    private static final class MeteredProcess<I, O> extends Metered<I, O> {
        private final ProcessFunction<I, O> function;

        MeteredProcess(ProcessFunction<I, O> function, Meter meter) {
            super(function, ProcessFunction.class, meter);
            this.function = function;
        }

        @Override
        void serve(I value, Context context, Collector<O> out) throws Exception {
            function.processElement(value, context, out);
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<O> out) throws Exception {
            outlet.into(out);
            long start = System.nanoTime();
            function.onTimer(time, context, outlet);
            meter.fired(System.nanoTime() - start - outlet.nanos);
        }
    }

    private static final class MeteredKeyedProcess<K, I, O> extends KeyedProcessFunction<K, I, O>
            implements Wrapper<O> {
        private final KeyedProcessFunction<K, I, O> function;
        private final Meter meter = new Meter(false);
        private transient Outlet<O> outlet;

        MeteredKeyedProcess(KeyedProcessFunction<K, I, O> function) {
            this.function = function;
        }

        @Override
        public void processElement(I value, Context context, Collector<O> out) throws Exception {
            meter.entered(context.timestamp());
            outlet.into(out);
            long start = System.nanoTime();
            function.processElement(value, context, outlet);
            meter.served(System.nanoTime() - start - outlet.nanos, context.timestamp());
        }

        @Override
        public void onTimer(long time, OnTimerContext context, Collector<O> out) throws Exception {
            outlet.into(out);
            long start = System.nanoTime();
            function.onTimer(time, context, outlet);
            meter.fired(System.nanoTime() - start - outlet.nanos);
        }

        @Override
        public Function wrapped() {
            return function;
        }

        @Override
        public Class<?> kind() {
            return KeyedProcessFunction.class;
        }

        @Override
        public void setRuntimeContext(RuntimeContext context) {
            super.setRuntimeContext(context);
            function.setRuntimeContext(context);
        }

        @Override
        public void open(OpenContext context) throws Exception {
            meter.open(getRuntimeContext().getMetricGroup());
            outlet = new Outlet<>();
            function.open(context);
        }

        @Override
        public void close() throws Exception {
            function.close();
        }
    }

    private static final class PassOn<T> extends ProcessFunction<T, T> {
        @Override
        public void processElement(T value, Context context, Collector<T> out) {
            out.collect(value);
        }
    }
}
