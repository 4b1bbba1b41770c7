import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Map;
import java.util.SplittableRandom;
import java.util.concurrent.locks.LockSupport;
import org.apache.flink.api.common.typeutils.base.LongSerializer;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.core.memory.DataOutputSerializer;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.metrics.groups.UnregisteredMetricsGroup;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/**
 * Sends records through Flink's own partitioner by key, in a JVM with Weir's agent. Arguments:
 * seconds for each law of keys, seconds for each cost, and the laws: {@code zipf 1.1} or {@code
 * share .3}. Prints what the agent counted under each law; then, for a quick and a slow stream, the
 * CPU nanoseconds per record of Flink's own method, without the hook, and of the hooked one, in turns
 * of a second.
 */
public class CountKeys {
    private static final int KEYS = 10_000;
    private static final int GROUPS = 720;
    private static final int CHANNELS = 4;
    private static final int DRAWN = 1 << 20;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private static Gauge<?> text;

    public static void main(String[] args) throws Exception {
        int seconds = Integer.parseInt(args[0]);
        for (int place = 2; place < args.length; place += 2) {
            String law = args[place] + " " + args[place + 1];
            long[] keys = draw(args[place].equals("zipf"), Double.parseDouble(args[place + 1]));
            onTask(() -> send(keys, partitioner("op"), seconds));
            System.out.println("law\t" + law + "\t" + text.getValue());
        }
        int turns = Integer.parseInt(args[1]);
        long[] keys = draw(true, 1.0);
        onTask(() -> cost("quick", keys, turns, Integer.MAX_VALUE));
        onTask(() -> cost("slow", keys, turns, 10_000));
    }

    /** Print the CPU nanoseconds of a record; off and on take turns in one thread. */
    private static void cost(String name, long[] keys, int turns, int perSecond) throws Exception {
        Sender[] senders = {
            new Sender(keys, new Unhooked(GROUPS, CHANNELS)), new Sender(keys, partitioner("op"))
        };
        double[][] nanos = new double[2][turns];
        for (int turn = -2; turn < turns; turn++) { // two to warm up
            for (int on = 0; on < 2; on++) {
                long cpu = THREADS.getCurrentThreadCpuTime();
                long sent = senders[on].sendFor(1_000_000_000L, perSecond);
                cpu = THREADS.getCurrentThreadCpuTime() - cpu;
                if (turn >= 0) {
                    nanos[on][turn] = (double) cpu / sent;
                }
            }
        }
        for (double[] each : nanos) {
            Arrays.sort(each);
        }
        System.out.println("cost\t" + name + "\t" + nanos[0][turns / 2] + "\t" + nanos[1][turns / 2]);
    }

    private static void send(long[] keys, KeyGroupStreamPartitioner<Long, Long> to, int seconds)
            throws Exception {
        new Sender(keys, to).sendFor(seconds * 1_000_000_000L, Integer.MAX_VALUE);
    }

    /** The method that the agent changes, as it is in Flink 2.3. */
    private static final class Unhooked extends KeyGroupStreamPartitioner<Long, Long> {
        private final KeySelector<Long, Long> selector = value -> value;
        private final int groups; // no constant, by which a processor divides in less time
        private final int channels;

        Unhooked(int groups, int channels) {
            super(value -> value, groups);
            this.groups = groups;
            this.channels = channels;
        }

        @Override
        public int selectChannel(SerializationDelegate<StreamRecord<Long>> record) {
            Long key;
            try {
                key = selector.getKey(record.getInstance().getValue());
            } catch (Exception failure) {
                throw new IllegalStateException("no key of " + record, failure);
            }
            return KeyGroupRangeAssignment.assignKeyToParallelOperator(key, groups, channels);
        }
    }

    /** What a task does to send a record: choose its channel, and serialize it. */
    private static final class Sender {
        private final long[] keys;
        private final KeyGroupStreamPartitioner<Long, Long> partitioner;
        private final SerializationDelegate<StreamRecord<Long>> delegate =
                new SerializationDelegate<>(null);
        private final StreamRecord<Long> record = new StreamRecord<>(0L);
        private final DataOutputSerializer output = new DataOutputSerializer(64);
        private long channels;
        private int next;

        Sender(long[] keys, KeyGroupStreamPartitioner<Long, Long> partitioner) {
            this.keys = keys;
            this.partitioner = partitioner;
            delegate.setInstance(record);
        }

        long sendFor(long nanos, int perSecond) throws Exception {
            long start = System.nanoTime();
            long sent = 0;
            while (System.nanoTime() - start < nanos) {
                for (int some = 0; some < 100; some++, sent++) {
                    record.replace(keys[next++ & (DRAWN - 1)]);
                    channels += partitioner.selectChannel(delegate);
                    output.clear();
                    LongSerializer.INSTANCE.serialize(record.getValue(), output);
                }
                long due = perSecond == Integer.MAX_VALUE ? 0 : sent * 1_000_000_000L / perSecond;
                long early = due - (System.nanoTime() - start);
                if (early > 0) {
                    LockSupport.parkNanos(early);
                }
            }
            if (channels < 0) {
                throw new IllegalStateException("never, but the compiler does not know");
            }
            return sent;
        }
    }

    private static KeyGroupStreamPartitioner<Long, Long> partitioner(String receivers)
            throws Exception {
        KeyGroupStreamPartitioner<Long, Long> made =
                new KeyGroupStreamPartitioner<>(value -> value, GROUPS);
        made.setup(CHANNELS);
        made.getClass().getField("weir$receivers").set(made, receivers);
        return made;
    }

    private static long[] draw(boolean zipf, double parameter) {
        double[] upTo = new double[KEYS];
        double sum = 0;
        for (int key = 0; key < KEYS; key++) {
            double even = (1 - parameter) / (KEYS - 1);
            sum += zipf ? Math.pow(key + 1, -parameter) : key == 0 ? parameter : even;
            upTo[key] = sum;
        }
        SplittableRandom random = new SplittableRandom(7);
        long[] drawn = new long[DRAWN];
        for (int record = 0; record < DRAWN; record++) {
            int place = Arrays.binarySearch(upTo, random.nextDouble() * sum);
            drawn[record] = Math.min(KEYS - 1, place < 0 ? -place - 1 : place);
        }
        return drawn;
    }

    private interface Action {
        void run() throws Exception;
    }

    /** Run in a thread that the agent takes for a task's. */
    private static void onTask(Action action) throws Exception {
        Throwable[] failure = new Throwable[1];
        Thread thread =
                new Thread(
                        () -> {
                            try {
                                beTask();
                                action.run();
                            } catch (Throwable thrown) {
                                failure[0] = thrown;
                            }
                        });
        thread.start();
        thread.join();
        if (failure[0] != null) {
            throw new IllegalStateException(failure[0]);
        }
    }

    private static void beTask() throws Exception {
        Class<?> meter = Class.forName("dev.weir.agent.Meter");
        Method report = meter.getDeclaredMethod("report", MetricGroup.class, Map.class);
        report.setAccessible(true);
        MetricGroup group =
                new UnregisteredMetricsGroup() {
                    @Override
                    public <T, G extends Gauge<T>> G gauge(String name, G gauge) {
                        text = gauge;
                        return gauge;
                    }
                };
        report.invoke(
                meter.getMethod("current").invoke(null),
                group,
                Map.of("weir.pin", "true", "weir.report-keys", "true"));
    }
}
