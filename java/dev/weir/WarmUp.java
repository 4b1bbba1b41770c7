package dev.weir;

import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.operators.SlotSharingGroup;
import org.apache.flink.api.common.state.ValueState;
import org.apache.flink.api.common.state.ValueStateDescriptor;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.configuration.MemorySize;
import org.apache.flink.configuration.RestartStrategyOptions;
import org.apache.flink.runtime.state.StateBackendLoader;
import org.apache.flink.streaming.api.datastream.SingleOutputStreamOperator;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.KeyedProcessFunction;
import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

import java.util.Optional;

/**
 * A job of a moment on TaskManagers that were added, before the job that they were added for is
 * stopped.
 *
 * <p>The first task of a JVM takes some ten times the CPU of any later one, because it loads and
 * initializes the classes of tasks, channels and state. On the TaskManagers that a rescale adds, that
 * would be part of its output gap. A few records through a source, a keyed function and their
 * channels do it while the job still runs.
 *
 * <p>An operator without state gets no keyed function: RocksDB would load its library and start its
 * threads, for as long as the TaskManager lives.
 *
 * <p>It writes nothing, takes no checkpoints and ends by itself. It is not restarted after a failure,
 * such as the loss of a TaskManager: the cluster's own setting would restart it for ever.
 */
public final class WarmUp {
    private static final long RECORDS = 64;
    private static final int KEYS = 16;

    private WarmUp() {}

    /**
     * Build the job and submit it.
     *
     * @param arguments pairs of an operator and how many TaskManagers of it are to be warmed up
     */
    public static void main(String[] arguments) throws Exception {
        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.getCheckpointConfig().disableCheckpointing();
        env.configure(new Configuration().set(RestartStrategyOptions.RESTART_STRATEGY, "none"));
        for (int i = 0; i < arguments.length; i += 2) {
            add(env, arguments[i], Integer.parseInt(arguments[i + 1]));
        }
        env.execute("weir-warm-up");
    }

    private static void add(StreamExecutionEnvironment env, String operator, int count) {
        // As in Weir.java: the same resources, so that only its own TaskManagers fit.
        SlotSharingGroup.Builder group =
                SlotSharingGroup.newBuilder(operator)
                        .setCpuCores(1)
                        .setTaskHeapMemoryMB(64)
                        .setExternalResource("op-" + operator, 1);
        Optional<MemorySize> managed =
                env.getConfiguration()
                        .getOptional(
                                ConfigOptions.key("weir.managed-memory." + operator)
                                        .memoryType()
                                        .noDefaultValue());
        managed.ifPresent(group::setManagedMemory);
        SlotSharingGroup slots = group.build();
        SingleOutputStreamOperator<Long> records =
                env.fromSequence(1, RECORDS * count)
                        .setParallelism(count)
                        .slotSharingGroup(slots)
                        .rebalance()
                        .process(new Pass())
                        .setParallelism(count)
                        .slotSharingGroup(slots);
        if (!managed.equals(Optional.of(MemorySize.ZERO)) || !stateUsesManagedMemory(env)) {
            records =
                    records.keyBy(record -> (int) (record % KEYS), Types.INT)
                            .process(new Number())
                            .setParallelism(count)
                            .slotSharingGroup(slots);
        }
        records.rebalance()
                .process(new Drop())
                .setParallelism(count)
                .slotSharingGroup(slots);
    }

    /** Says whether an operator without managed memory has no keyed state (see ReadGraph). */
    private static boolean stateUsesManagedMemory(StreamExecutionEnvironment env) {
        return StateBackendLoader.stateBackendFromApplicationOrConfigOrDefaultUseManagedMemory(
                Configuration.fromMap(env.getConfiguration().toMap()),
                Optional.empty(),
                WarmUp.class.getClassLoader());
    }

    private static final class Pass extends ProcessFunction<Long, Long> {
        @Override
        public void processElement(Long record, Context context, Collector<Long> out) {
            out.collect(record);
        }
    }

    private static final class Number extends KeyedProcessFunction<Integer, Long, Long> {
        private transient ValueState<Long> count;

        @Override
        public void open(OpenContext context) {
            count = getRuntimeContext().getState(new ValueStateDescriptor<>("count", Types.LONG));
        }

        @Override
        public void processElement(Long record, Context context, Collector<Long> out)
                throws Exception {
            Long before = count.value();
            count.update(before == null ? 1 : before + 1);
            out.collect(record);
        }
    }

    private static final class Drop extends ProcessFunction<Long, Long> {
        @Override
        public void processElement(Long record, Context context, Collector<Long> out) {}
    }
}
