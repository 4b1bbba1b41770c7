package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.agent.hooks.BufferHook;
import dev.weir.agent.hooks.Hook;
import dev.weir.agent.hooks.JobGraphHook;
import dev.weir.agent.hooks.KeyHook;
import dev.weir.agent.hooks.MarkerHook;
import dev.weir.agent.hooks.RecordHook;
import dev.weir.agent.hooks.SourcePollHook;
import dev.weir.agent.hooks.SourceRecordHook;
import dev.weir.agent.hooks.TaskStartHook;
import dev.weir.agent.hooks.TimerHook;
import dev.weir.agent.hooks.WatermarkHook;
import java.io.IOException;
import java.io.InputStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import net.bytebuddy.ByteBuddy;
import net.bytebuddy.dynamic.ClassFileLocator;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.MethodVisitor;
import net.bytebuddy.jar.asm.Opcodes;
import net.bytebuddy.pool.TypePool;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.io.network.api.writer.ChannelSelector;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;
import org.apache.flink.streaming.api.watermark.Watermark;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** Each hook, in the classes of the installed Flink, and in others of the same shape. */
class HooksTest {
    private static final ClassLoader FLINK = HooksTest.class.getClassLoader();

    static Stream<Arguments> places() {
        return Agent.hooks().stream()
                .flatMap(hook -> hook.types().stream().map(type -> Arguments.of(hook, type)));
    }

    @ParameterizedTest
    @MethodSource("places")
    void theMethodsThatAHookNamesCallTheAgentAndNoOthers(Hook hook, String type)
            throws IOException {
        byte[] changed = Weaver.weave(List.of(hook), type, FLINK, code(type));

        assertEquals(named(hook, type), callers(changed));
    }

    @ParameterizedTest
    @MethodSource("places")
    void aChangedClassOfFlinkIsLoaded(Hook hook, String type) throws Exception {
        byte[] changed = Weaver.weave(List.of(hook), type, FLINK, code(type));

        Class<?> loaded = new Own(type, changed).loadClass(type);

        loaded.getDeclaredMethods();
        assertEquals(Own.class, loaded.getClassLoader().getClass());
        assertEquals(type, Class.forName(type, true, loaded.getClassLoader()).getName());
    }

    @ParameterizedTest
    @MethodSource("places")
    void aClassWithoutTheMethodStaysAsItIsAndTheReasonIsKept(Hook hook, String type) {
        byte[] empty = new ByteBuddy().subclass(Object.class).name(type).make().getBytes();

        byte[] changed =
                new Transformer(List.of(hook))
                        .transform(FLINK, type.replace('.', '/'), null, null, empty);

        assertNull(changed);
        assertTrue(StepBack.reasons().toString().contains("this Flink has no " + hook), type);
    }

    @Test
    void recordsAreTimedByTheMeterOfTheirThread() throws Exception {
        Object output = woven(new RecordHook(), Output.class);

        long timed = timedBy(() -> call(output, "emitRecord"));

        assertEquals(1, timed);
    }

    @Test
    void recordsOfASourceAreTimedFromThePollOn() throws Exception {
        Object source = woven(new SourcePollHook(), Output.class);
        Object output = woven(new SourceRecordHook(), Output.class);

        long timed =
                timedBy(
                        () -> {
                            call(source, "emitNext");
                            call(output, "emitRecord");
                        });

        assertEquals(1, timed);
    }

    @Test
    void watermarksTimersAndBuffersAreNoRecords() throws Exception {
        Object watermarks = woven(new WatermarkHook(), Output.class);
        Object timers = woven(new TimerHook(), Output.class);
        Object buffers = woven(new BufferHook(), Output.class);

        long timed =
                timedBy(
                        () -> {
                            call(watermarks, "emitWatermark", new Watermark(1));
                            call(timers, "invokeProcessingTimeCallback");
                            call(buffers, "requestBufferBuilderBlocking", 1);
                        });

        assertEquals(0, timed);
    }

    @Test
    void aMarkerTellsTheAgeOfTheRecordsBeforeIt() throws Exception {
        Object records = woven(new RecordHook(), Output.class);
        Object markers = woven(new MarkerHook(), Output.class);
        LatencyMarker marker =
                new LatencyMarker(System.currentTimeMillis() - 60_000, new OperatorID(), 0);

        double[] aged = new double[2];
        onOwnThread(
                () -> {
                    call(records, "emitRecord");
                    call(records, "emitRecord");
                    call(markers, "reportLatency", marker);
                    aged[0] = Meter.current().agedCount();
                    aged[1] = Meter.current().agedMicros();
                });

        assertEquals(2, aged[0]);
        assertEquals(60e6, aged[1] / aged[0], 10e6);
    }

    @Test
    void keysAreCountedForTheOperatorsThatTheJobManagerNamed() throws Exception {
        Class<?> type = wovenClass(new KeyHook(), Partitioner.class);
        Object named = made(type);
        type.getField(Hook.RECEIVERS).set(named, "sums");
        Object nameless = made(type);
        List<Gauge<?>> gauges = new ArrayList<>();

        onOwnThread(() -> call(named, "selectChannel", record(1L)));
        Object other = made(type);
        type.getField(Hook.RECEIVERS).set(other, "sums");
        onOwnThread(
                () -> {
                    Meter.current().report(collecting(gauges), Map.of());
                    do {
                        call(other, "selectChannel", record(1L));
                        call(nameless, "selectChannel", record(1L));
                    } while (gauges.get(0).getValue().toString().startsWith("sums 4 0 "));
                });

        assertEquals(1, gauges.size());
        assertTrue(gauges.get(0).getValue().toString().startsWith("sums 4 1 0 1 "));
    }

    @Test
    void flinksOwnPartitionerCountsEachKeyAsOftenAndSendsRecordsWhereItDid() throws Exception {
        Class<?> type = wovenClass(new KeyHook(), KeyGroupStreamPartitioner.class);
        KeySelector<Long, Long> selector = value -> value % 3;
        Object partitioner = type.getConstructor(KeySelector.class, int.class).newInstance(selector, 128);
        type.getField(Hook.RECEIVERS).set(partitioner, "sums");
        @SuppressWarnings("unchecked") // as the writer of records has it
        var channels = (ChannelSelector<SerializationDelegate<StreamRecord<Long>>>) partitioner;
        channels.setup(4);
        List<Gauge<?>> gauges = new ArrayList<>();

        onOwnThread(
                () -> {
                    Meter.current().report(collecting(gauges), Map.of());
                    for (long value = 0; value < 1 || counted(gauges.get(0)) < 3000; value++) {
                        int expected =
                                KeyGroupRangeAssignment.assignKeyToParallelOperator(value % 3, 128, 4);
                        assertEquals(expected, channels.selectChannel(record(value)));
                    }
                });

        long[] weights =
                Arrays.stream(gauges.get(0).getValue().toString().split(" ")[5].split(","))
                        .mapToLong(n -> Long.parseLong(n, 36))
                        .filter(n -> n > 0)
                        .toArray();
        assertEquals(3, weights.length);
        for (long weight : weights) {
            assertEquals(1.0 / 3, (double) weight / Arrays.stream(weights).sum(), 0.07);
        }
    }

    @Test
    void timedRecordsAddToTheKeyGroupThatIsCurrentAtTheirEnd() throws Exception {
        Object output = woven(new RecordHook(), KeyedOutput.class);
        int[] group = {1};
        output.getClass().getField("group").set(output, group);
        List<Gauge<?>> gauges = new ArrayList<>();

        onOwnThread(
                () -> {
                    Meter.current().report(collecting(gauges), Map.of());
                    Meter.current().countWork(2, () -> group[0]);
                    Meter.current().measure();
                    call(output, "emitRecord");
                });

        String[] groups = gauges.get(0).getValue().toString().split(" ")[5].split(",");
        assertNotEquals("0", groups[0]);
        assertEquals("0", groups[1]);
    }

    @Test
    void onlyTheNamesOfReceiversGoWithAPartitioner() throws Exception {
        Class<?> type = wovenClass(new KeyHook(), Partitioner.class);

        assertFalse(Modifier.isTransient(type.getField(Hook.RECEIVERS).getModifiers()));
        assertTrue(Modifier.isTransient(type.getField("weir$counts").getModifiers()));
    }

    @Test
    void whatAMethodThrowsPassesTheAgent() throws Exception {
        for (Hook hook : List.of(new RecordHook(), new SourceRecordHook())) {
            Object output = woven(hook, Throws.class);

            assertThrows(IllegalArgumentException.class, () -> call(output, "emitRecord"));
        }
    }

    @Test
    void aTaskThatCannotBeMeasuredStartsAllTheSame() throws Exception {
        Object task = woven(new TaskStartHook(), Output.class);

        onOwnThread(() -> call(task, "restore"));

        assertEquals(List.of("restore"), calls(task));
        assertTrue(StepBack.reasons().toString().contains("the metrics of a task"));
    }

    @Test
    void whatAJobsSettingsAskForInVainEndsItsSubmission() throws Exception {
        Class<?> generator = wovenClass(new JobGraphHook(), Generator.class);
        Method create = generator.getDeclaredMethod("createJobGraph", Object.class);
        create.setAccessible(true);
        Configuration settings = new Configuration();
        settings.setString("weir.pin", "true");
        settings.setString("weir.parallelism.nobody", "2");

        InvocationTargetException ended =
                assertThrows(
                        InvocationTargetException.class,
                        () -> create.invoke(null, Graphs.of(settings)));

        assertEquals(Refusal.class, ended.getCause().getClass());
        assertEquals("made", create.invoke(null, "no graph"));
    }

    /** Returns how many records a thread of its own has timed. */
    private static long timedBy(Action action) throws Exception {
        long[] count = new long[1];
        onOwnThread(
                () -> {
                    Meter.current().measure();
                    action.run();
                    count[0] = Meter.current().count();
                });
        return count[0];
    }

    private static void onOwnThread(Action action) throws Exception {
        List<Exception> failures = new ArrayList<>();
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                action.run();
                            } catch (Exception failure) {
                                failures.add(failure);
                            }
                        });
        thread.start();
        thread.join();
        assertEquals(List.of(), failures);
    }

    private static Set<String> named(Hook hook, String type) throws IOException {
        return TypePool.Default.of(FLINK).describe(type).resolve().getDeclaredMethods()
                .filter(hook.method())
                .stream()
                .map(each -> each.getInternalName() + each.getDescriptor())
                .collect(Collectors.toCollection(TreeSet::new));
    }

    /** Returns the methods that call a class of the agent. */
    private static Set<String> callers(byte[] code) {
        Set<String> found = new TreeSet<>();
        new ClassReader(code)
                .accept(
                        new ClassVisitor(Opcodes.ASM9) {
                            @Override
                            public MethodVisitor visitMethod(
                                    int access, String name, String type, String s, String[] t) {
                                return new MethodVisitor(Opcodes.ASM9) {
                                    @Override
                                    public void visitMethodInsn(
                                            int code, String owner, String n, String d, boolean i) {
                                        if (owner.startsWith("dev/weir/agent/")) {
                                            found.add(name + type);
                                        }
                                    }
                                };
                            }
                        },
                        0);
        assertFalse(found.isEmpty());
        return found;
    }

    private static byte[] code(String type) throws IOException {
        try (InputStream code = FLINK.getResourceAsStream(type.replace('.', '/') + ".class")) {
            return code.readAllBytes();
        }
    }

    private static Class<?> wovenClass(Hook hook, Class<?> shape) throws Exception {
        byte[] code = ClassFileLocator.ForClassLoader.read(shape);
        byte[] changed = Weaver.weave(List.of(hook), shape.getName(), FLINK, code);
        return new Own(shape.getName(), changed).loadClass(shape.getName());
    }

    private static MetricGroup collecting(List<Gauge<?>> gauges) {
        return new UnregisteredMetricsGroup() {
            @Override
            public <T, G extends Gauge<T>> G gauge(String name, G gauge) {
                gauges.add(gauge);
                return gauge;
            }
        };
    }

    private static long counted(Gauge<?> keys) {
        return Long.parseLong(keys.getValue().toString().split(" ")[2], 36);
    }

    private static SerializationDelegate<StreamRecord<Long>> record(long value) {
        SerializationDelegate<StreamRecord<Long>> delegate = new SerializationDelegate<>(null);
        delegate.setInstance(new StreamRecord<>(value));
        return delegate;
    }

    private static Object woven(Hook hook, Class<?> shape) throws Exception {
        return made(wovenClass(hook, shape));
    }

    private static Object made(Class<?> type) throws Exception {
        var constructor = type.getDeclaredConstructor();
        constructor.setAccessible(true);
        return constructor.newInstance();
    }

    private static void call(Object target, String name, Object... arguments) throws Exception {
        for (Method method : target.getClass().getDeclaredMethods()) {
            if (method.getName().equals(name)) {
                method.setAccessible(true);
                try {
                    method.invoke(target, arguments);
                } catch (InvocationTargetException thrown) {
                    throw (Exception) thrown.getCause();
                }
                return;
            }
        }
        throw new NoSuchMethodException(name);
    }

    private static Object calls(Object target) throws Exception {
        var field = target.getClass().getDeclaredField("calls");
        field.setAccessible(true);
        return field.get(target);
    }

    private interface Action {
        void run() throws Exception;
    }

    /** Loads one class itself, and the others as usual. */
    private static final class Own extends ClassLoader {
        private final String name;
        private final byte[] code;

        Own(String name, byte[] code) {
            super(FLINK);
            this.name = name;
            this.code = code;
        }

        @Override
        protected Class<?> loadClass(String wanted, boolean resolve)
                throws ClassNotFoundException {
            if (!wanted.equals(name)) {
                return super.loadClass(wanted, resolve);
            }
            Class<?> found = findLoadedClass(name);
            return found == null ? defineClass(name, code, 0, code.length) : found;
        }
    }

    static class Output {
        final List<String> calls = new ArrayList<>();

        void restore() {
            calls.add("restore");
        }

        void emitRecord() {}

        void emitNext() {}

        void emitWatermark(Watermark watermark) {}

        void reportLatency(LatencyMarker marker) {}

        void invokeProcessingTimeCallback() {}

        void requestBufferBuilderBlocking(int channel) {}
    }

    public static class KeyedOutput {
        public int[] group;

        void emitRecord() {
            group[0] = 0;
        }
    }

    public static class Partitioner {
        private final KeySelector<Long, Long> keySelector = value -> value % 2;
        private int maxParallelism = 4;

        int selectChannel(SerializationDelegate<StreamRecord<Long>> record) {
            return 0;
        }
    }

    static class Throws {
        void emitRecord() {
            throw new IllegalArgumentException("not a record");
        }
    }

    static class Generator {
        static String createJobGraph(Object graph) {
            return "made";
        }
    }
}
