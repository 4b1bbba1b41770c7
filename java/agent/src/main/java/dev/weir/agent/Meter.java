package dev.weir.agent;

import java.lang.reflect.Field;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.IntSupplier;
import java.util.stream.Collectors;
import org.apache.flink.metrics.Gauge;
import org.apache.flink.metrics.MetricGroup;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.runtime.state.AbstractKeyedStateBackend;
import org.apache.flink.streaming.api.graph.StreamConfig;
import org.apache.flink.streaming.api.operators.AbstractStreamOperator;
import org.apache.flink.streaming.api.operators.AbstractStreamOperatorV2;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;
import org.apache.flink.streaming.runtime.tasks.StreamTask;

/**
 * The service times of one task, without the time that it waits for empty buffers, and the age at
 * which records reach it. Written by the task's thread alone, read by reporters.
 *
 * <p>A measurement takes some 120 ns. Tasks whose records take 12 us or more are timed at each;
 * quicker ones as rarely as keeps the cost near 1 %, after gaps of random length, so that a pattern
 * in the stream is not met again and again.
 *
 * <p>Records bear no time at which they left their source, but latency markers that wait among them
 * do. The records since the last marker count as old as the next, so a replica counts by its records.
 * A source sends some twenty markers a second, behind records at random. Flink sends fewer, by a
 * timer, which says nothing of when the records of a burst left. Markers overtake records that wait
 * for asynchronous calls, so they are made older by the mean time of these calls. Gauges of the task, all of which
 * rise from 0:
 *
 * <pre>
 * weir_service_n, _us_sum, _us2_sum   timed records, their microseconds, and the squares of these
 * weir_other_us_sum                   work that belongs to no record: watermarks, timers
 * weir_age_n, _us_sum                 records that came before a marker, and their age by it
 * weir_keys                           a text: {@link KeyCounts#line} of each keyed output, and of
 *                                     the task's own key groups
 * weir_agent_stepped_back             what the agent could not do in this JVM
 * </pre>
 */
public final class Meter {
    private static final long COST_NANOS = 120;
    private static final int SHARE = 100;
    private static final int MOST_GAP = 64;
    private static final int MILLIS_PER_MARKER = 50;
    private static final int MOST_MARKERS = 40;
    private static final int MOST_MARKER_GAP = 1 << 20;
    private static final int MOST_KEYED_OUTPUTS = 8; // Flink sends 64 KiB of a text at most
    private static final ThreadLocal<Meter> CURRENT = ThreadLocal.withInitial(Meter::new);

    private final List<KeyCounts> keys = new CopyOnWriteArrayList<>();
    private boolean attached;
    private MetricGroup metrics; // null where the job is not submitted by Weir
    private Map<String, String> settings;
    private StreamTask<?, ?> task; // until its first timed record, when its state is there
    private IntSupplier keyGroup; // null where the key of a record is not known
    private KeyCounts work;
    private boolean measures;
    private int left = 1;
    private int gap = 1;
    private double recentNanos;
    private final Randomness random = new Randomness();
    private long blockedNanos;
    private long pollStart;
    private long count;
    private double sumMicros;
    private double sumSquaredMicros;
    private long otherNanos;
    private OperatorID source;
    private long markerGap = 1;
    private long untilMarker = 1;
    private long polled;
    private int sent;
    private long countedAt = System.currentTimeMillis();
    private long sinceMarker;
    private long agedCount;
    private double agedMicros;
    private long callNanos;
    private long calls;
    private long calledAt;
    private long callsSince;
    private long callMillis;

    Meter() {}

    /** Returns the meter of the calling thread, which measures nothing before it is attached. */
    public static Meter current() {
        return CURRENT.get();
    }

    /** Begin to measure the task of the calling thread, where its job is submitted by Weir. */
    public static void attach(Object started) {
        Meter meter = CURRENT.get();
        if (meter.attached) {
            return;
        }
        meter.attached = true;
        try {
            meter.attachTo((StreamTask<?, ?>) started);
        } catch (Throwable failure) {
            StepBack.because("the metrics of a task", failure);
        }
    }

    private void attachTo(StreamTask<?, ?> started) {
        Map<String, String> jobSettings = started.getEnvironment().getJobConfiguration().toMap();
        if (!"true".equals(jobSettings.get("weir.pin"))) {
            return;
        }
        MetricGroup group = started.getEnvironment().getMetricGroup();
        report(group, jobSettings);
        group.gauge("weir_agent_stepped_back", (Gauge<Integer>) () -> StepBack.reasons().size());
        source = new StreamConfig(started.getEnvironment().getTaskConfiguration()).getOperatorID();
        group.gauge("weir_age_n", (Gauge<Long>) () -> agedCount);
        group.gauge("weir_age_us_sum", (Gauge<Double>) () -> agedMicros);
        if (returnsEarly(started)) {
            return;
        }
        group.gauge("weir_service_n", (Gauge<Long>) () -> count);
        group.gauge("weir_service_us_sum", (Gauge<Double>) () -> sumMicros);
        group.gauge("weir_service_us2_sum", (Gauge<Double>) () -> sumSquaredMicros);
        group.gauge("weir_other_us_sum", (Gauge<Double>) () -> otherNanos / 1e3);
        measures = true;
        task = started;
    }

    /** Returns whether a function of the chain has not finished a record when it returns. */
    private static boolean returnsEarly(StreamTask<?, ?> task) {
        ClassLoader loader = task.getEnvironment().getUserCodeClassLoader().asClassLoader();
        StreamConfig configuration = new StreamConfig(task.getEnvironment().getTaskConfiguration());
        for (StreamConfig each :
                configuration.getTransitiveChainedTaskConfigsWithSelf(loader).values()) {
            Class<?> factory = each.getStreamOperatorFactoryClass(loader);
            String name = factory == null ? "" : factory.getName().toLowerCase(Locale.ROOT);
            if (name.contains("async") || name.contains("python")) {
                return true;
            }
        }
        return false;
    }

    /** Find the key groups of a task, unless some of its records have none or are put off. */
    private void findKeys(StreamTask<?, ?> started) {
        try {
            ClassLoader loader = started.getEnvironment().getUserCodeClassLoader().asClassLoader();
            StreamConfig configuration =
                    new StreamConfig(started.getEnvironment().getTaskConfiguration());
            for (int input = configuration.getInputs(loader).length - 1; input >= 0; input--) {
                if (configuration.getStatePartitioner(input, loader) == null) {
                    return;
                }
            }
            Field field = StreamTask.class.getDeclaredField("mainOperator");
            field.setAccessible(true);
            Object operator = field.get(started);
            for (Class<?> each = operator.getClass(); each != null; each = each.getSuperclass()) {
                if (each.getSimpleName().contains("Async")) {
                    return; // asynchronous state: another record's key may be current by now
                }
            }
            Object state = null;
            if (operator instanceof AbstractStreamOperator) {
                state = ((AbstractStreamOperator<?>) operator).getKeyedStateBackend();
            } else if (operator instanceof AbstractStreamOperatorV2) {
                state = ((AbstractStreamOperatorV2<?>) operator).getKeyedStateBackend();
            }
            if (state instanceof AbstractKeyedStateBackend) {
                AbstractKeyedStateBackend<?> known = (AbstractKeyedStateBackend<?>) state;
                countWork(known.getNumberOfKeyGroups(), known::getCurrentKeyGroupIndex);
            }
        } catch (Throwable failure) {
            StepBack.because("the work of key groups", failure);
        }
    }

    void countWork(int groups, IntSupplier current) {
        work = countKeys(".", groups);
        keyGroup = work == null ? null : current;
    }

    /** Returns new counts of keys that the task sends, null where it is not measured. */
    KeyCounts countKeys(String receivers, int groups) {
        if (metrics == null || keys.size() == MOST_KEYED_OUTPUTS) {
            return null;
        }
        long from = System.currentTimeMillis() + 1000;
        KeyCounts counts = new KeyCounts(receivers, groups, settings, from);
        keys.add(counts);
        if (keys.size() == 1) {
            metrics.gauge("weir_keys", (Gauge<String>) this::keyLines);
        }
        return counts;
    }

    private String keyLines() {
        return keys.stream().map(KeyCounts::line).collect(Collectors.joining("\n"));
    }

    /** Returns when a record comes in, 0 where it is not timed. */
    public long begin() {
        sinceMarker++;
        if (!measures || --left > 0) {
            return 0;
        }
        blockedNanos = 0;
        return System.nanoTime();
    }

    /** Take a record that was timed and has passed. */
    public void end(long start) {
        long nanos = System.nanoTime() - start - blockedNanos;
        add(nanos);
        if (task != null) {
            StreamTask<?, ?> started = task;
            task = null;
            findKeys(started);
        }
        if (keyGroup != null) {
            work.addWork(keyGroup.getAsInt(), nanos, gap, System.currentTimeMillis());
        }
        left = nextGap();
    }

    /** Begin the time of a source's next record. */
    public void beginPoll() {
        if (measures && left == 1) {
            blockedNanos = 0;
            pollStart = System.nanoTime();
        }
    }

    /** Take a source's record that has passed to an output, and send a marker behind some. */
    public void endPolled(Object output) throws Exception {
        sinceMarker++;
        polled++;
        if (measures && --left <= 0) {
            add(System.nanoTime() - pollStart - blockedNanos);
            left = nextGap();
        }
        if (source != null && --untilMarker <= 0) {
            long now = System.currentTimeMillis();
            ((DataOutput<?>) output).emitLatencyMarker(new LatencyMarker(now, source, 0));
            untilMarker = nextMarkerGap(now);
        }
        beginPoll();
    }

    /** Take a latency marker; the functions behind the first of a chain find no records left. */
    public static void takeMarker(LatencyMarker marker) {
        CURRENT.get().age(System.currentTimeMillis() - marker.getMarkedTime());
    }

    /** Take how many records have been waiting for asynchronous calls since the last time. */
    public static void waited(int records) {
        CURRENT.get().noteWaiting(records, System.nanoTime());
    }

    /** Take a record that begins to wait for an asynchronous call. */
    public static void called() {
        CURRENT.get().noteCall();
    }

    /** Returns a marker as old as the records that it overtakes. */
    public static LatencyMarker behindCalls(LatencyMarker marker) {
        Meter meter = CURRENT.get();
        return meter.source == null ? marker : meter.older(marker);
    }

    /** Returns when work that belongs to no record begins. */
    public static long beginOther() {
        CURRENT.get().blockedNanos = 0;
        return System.nanoTime();
    }

    /** Take work that belongs to no record. */
    public static void endOther(long start) {
        Meter meter = CURRENT.get();
        meter.otherNanos += System.nanoTime() - start - meter.blockedNanos;
        meter.blockedNanos = 0;
    }

    /** Take time for which the task waited for an empty buffer. */
    public static void blocked(long start) {
        CURRENT.get().blockedNanos += System.nanoTime() - start;
    }

    void report(MetricGroup group, Map<String, String> jobSettings) {
        metrics = group;
        settings = jobSettings;
    }

    void measure() {
        measures = true;
    }

    void mark(OperatorID from) {
        source = from;
    }

    void age(long millis) {
        agedCount += sinceMarker;
        // A marker of the future is 0 old: clocks differ, and the sum must not fall.
        agedMicros += sinceMarker * Math.max(0, millis) * 1e3;
        sinceMarker = 0;
    }

    void noteWaiting(int records, long now) {
        if (records > 0) {
            callNanos += records * (now - calledAt);
        }
        calledAt = now;
        if (now - callsSince >= 1_000_000_000 && calls > 0) {
            callMillis = Math.round(callNanos / 1e6 / calls); // Little's law
            callsSince = now;
            callNanos = 0;
            calls = 0;
        }
    }

    void noteCall() {
        calls++;
    }

    LatencyMarker older(LatencyMarker marker) {
        return new LatencyMarker(
                marker.getMarkedTime() - callMillis,
                marker.getOperatorId(),
                marker.getSubtaskIndex());
    }

    long count() {
        return count;
    }

    long agedCount() {
        return agedCount;
    }

    double agedMicros() {
        return agedMicros;
    }

    private void add(long nanos) {
        double micros = nanos * 1e-3;
        count++;
        sumMicros += micros;
        sumSquaredMicros += micros * micros;
        recentNanos += (nanos - recentNanos) / Math.min(count, 64);
    }

    /** Returns after how many records the next is timed: 1 to 2 gap - 1, gap on average. */
    private int nextGap() {
        if ((count & 63) == 0) {
            double own = Math.max(1, recentNanos);
            gap = (int) Math.max(1, Math.min(MOST_GAP, COST_NANOS * SHARE / own));
        }
        return random.around(gap);
    }

    /**
     * Returns after how many records the next marker is sent. A gap that followed from the last one
     * would be short behind each wait for room, and would prefer the first records of a burst.
     */
    private int nextMarkerGap(long now) {
        long elapsed = now - countedAt;
        if (elapsed >= 1000) {
            markerGap = polled * MILLIS_PER_MARKER / elapsed;
            countedAt = now;
            polled = 0;
            sent = 0;
        } else if (++sent > MOST_MARKERS) {
            markerGap *= 2; // many more records come than a second ago
        }
        markerGap = Math.max(1, Math.min(MOST_MARKER_GAP, markerGap));
        return random.around((int) markerGap);
    }
}
