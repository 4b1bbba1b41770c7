package dev.weir.agent;

import java.net.URLEncoder;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.apache.flink.streaming.api.graph.StreamEdge;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.apache.flink.streaming.api.graph.StreamNode;
import org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner;

/**
 * How many records a task sent to each key group of an operator, and by which keys most of them; or
 * the time that the key groups of a task took itself. Written by the task's thread alone, read by
 * reporters.
 *
 * <p>At most some 10,000 records a second are counted, of more one in so many, after gaps of random
 * length. Every two minutes all counts are halved, so that they say what has come of late; those of
 * several tasks can be added.
 *
 * <p>{@link #line} is what Weir reads, at most 4 KiB, numbers to base 36:
 *
 * <pre>
 * OPERATORS GROUPS COUNTED SHIFT WIDTH c,c,...  KEY:GROUP:c,...
 * </pre>
 *
 * the operators that the records go to, their key groups, the records that were counted; then the
 * weight of each WIDTH key groups and of the heaviest keys, all shifted right by SHIFT. A key is the
 * hash of a salt and its hash code, or {@code =TEXT} where the job reports keys. Where OPERATORS is a
 * point, the weights are nanoseconds of the task's own key groups, and COUNTED is how many timed
 * records of one length would say as much: (sum of weights)^2 / (sum of their squares).
 */
public final class KeyCounts {
    static final String SALT = "weir.key-salt";
    static final String REPORTS_KEYS = "weir.report-keys";
    private static final KeyCounts NOTHING = new KeyCounts("", 1, Map.of(), 0);
    /**
     * In the first second of a task, nothing is counted, and one record in 2 to this is looked at.
     * The compiler takes what it sees once in 118 records or less for rare, and keeps its code out of
     * the way of all others.
     */
    private static final int RARE = 8;

    private static final int PER_SECOND = 10_000;
    private static final int MOST_GAP = 1 << 16;
    private static final long PERIOD_MILLIS = 120_000;
    private static final int MOST_COUNTS = 768;
    private static final long MOST_WEIGHT = 36 * 36 * 36 / 2; // of a count, on average: three digits
    private static final int MOST_KEYS = 5;
    private static final int NAMED_FROM = 125; // so that each with one record in 100 is named
    private static final int LONGEST_KEY = 80;

    private final String receivers;
    private final long[] weights;
    private final KeySketch keys;
    private final String salt;
    private final Randomness random = new Randomness();
    private final long from;
    private int gap = 1;
    private long counted;
    private double squares;
    private long second;
    private int inSecond;
    private long period;

    KeyCounts(String receivers, int groups, Map<String, String> settings, long from) {
        this.receivers = receivers;
        this.from = from;
        weights = new long[groups];
        keys = new KeySketch("true".equals(settings.get(REPORTS_KEYS)));
        salt = settings.getOrDefault(SALT, "");
        period = from / PERIOD_MILLIS;
    }

    /**
     * Write into the partitioners of a graph which operators they send to, for the tasks to read.
     *
     * @throws ReflectiveOperationException the agent did not change the class of the partitioners
     */
    static void nameReceivers(StreamGraph graph) throws ReflectiveOperationException {
        for (StreamNode node : graph.getStreamNodes()) {
            for (StreamEdge edge : node.getOutEdges()) {
                if (edge.getPartitioner() instanceof KeyGroupStreamPartitioner) {
                    var field = KeyGroupStreamPartitioner.class.getField("weir$receivers");
                    String known = (String) field.get(edge.getPartitioner());
                    // Two edges may share one partitioner.
                    Set<String> names = new TreeSet<>();
                    if (known != null) {
                        names.addAll(Set.of(known.split(",")));
                    }
                    names.add(graph.getTargetVertex(edge).getSlotSharingGroup());
                    field.set(edge.getPartitioner(), String.join(",", names));
                }
            }
        }
    }

    /** Returns new counts of the calling thread's task, which count nothing where it is not measured. */
    public static KeyCounts of(String receivers, int groups) {
        KeyCounts counts = receivers == null ? null : Meter.current().countKeys(receivers, groups);
        return counts == null ? NOTHING : counts;
    }

    /** Returns whether records are counted at all. */
    public boolean isOn() {
        return this != NOTHING;
    }

    /**
     * Count the record that passes, and those that passed uncounted since the last.
     *
     * @return how many records from here the next is counted, at least 1
     */
    public int add(Object key) {
        return add(key, System.currentTimeMillis());
    }

    int add(Object key, long now) {
        if (now < from) {
            second = second == 0 ? now / 1000 : second;
            gap = 1 << Math.min(RARE, inSecond++);
            return gap;
        }
        forget(now);
        if (counted == 0) {
            adapt(now); // to the rate of the first second
        }
        int hash = key.hashCode();
        weights[KeyGroupRangeAssignment.computeKeyGroupForKeyHash(hash, weights.length)] += gap;
        keys.add(key, hash, gap);
        counted++;
        inSecond++;
        adapt(now);
        return random.around(gap);
    }

    /** Count so many of the next records that the rate of late makes it some 10,000 a second. */
    private void adapt(long now) {
        if (now / 1000 != second) {
            long since = Math.max(1, now / 1000 - second);
            gap = (int) Math.max(1, Math.min(gap, gap * (long) inSecond / since / PER_SECOND));
            second = now / 1000;
            inSecond = 0;
        } else if (inSecond > PER_SECOND) {
            gap = Math.min(MOST_GAP, 2 * gap);
            inSecond /= 2;
        }
    }

    /** Add the time of a record of a key group, and of those like it that were not timed. */
    void addWork(int group, long nanos, int records, long now) {
        forget(now);
        long weight = Math.max(0, nanos) * records;
        weights[group] += weight;
        squares += (double) weight * weight;
    }

    /** Halve everything for each period that is over. */
    private void forget(long now) {
        int past = periods(now);
        if (past > 0) {
            for (int group = 0; group < weights.length; group++) {
                weights[group] >>= past;
            }
            keys.halve(past);
            counted >>= past;
            squares /= 1L << past;
            period += past;
        }
    }

    private int periods(long now) {
        return (int) Math.max(0, Math.min(62, now / PERIOD_MILLIS - period));
    }

    /** Returns what Weir reads. */
    String line() {
        return line(System.currentTimeMillis());
    }

    String line(long now) {
        int width = (weights.length + MOST_COUNTS - 1) / MOST_COUNTS;
        long[] blocks = new long[(weights.length + width - 1) / width];
        int past = periods(now);
        long total = 0;
        for (int group = 0; group < weights.length; group++) {
            long weight = weights[group] >> past;
            total += weight;
            blocks[group / width] += weight;
        }
        int shift = 0;
        while (total >> shift >= MOST_WEIGHT * blocks.length) {
            shift++;
        }
        StringBuilder text = new StringBuilder(receivers);
        double alike = (double) total * total / squares * (1L << past);
        long known = squares > 0 ? Math.round(alike) : counted >> past;
        for (long number : new long[] {weights.length, known, shift, width}) {
            text.append(' ').append(base36(number));
        }
        char separator = ' ';
        for (long block : blocks) {
            // Rounded: many small counts would else be nothing.
            text.append(separator).append(base36((block + (1L << shift >> 1)) >> shift));
            separator = ',';
        }
        separator = ' ';
        long named = Math.max(1, total / NAMED_FROM << past);
        for (KeySketch.Key key : keys.heaviest(named, MOST_KEYS)) {
            int group =
                    KeyGroupRangeAssignment.computeKeyGroupForKeyHash(key.hash, weights.length);
            text.append(separator).append(name(key)).append(':').append(base36(group));
            text.append(':').append(base36(key.weight >> past >> shift));
            separator = ',';
        }
        return text.toString();
    }

    private String name(KeySketch.Key key) {
        if (key.text == null) {
            return hash(key.hash);
        }
        String text = URLEncoder.encode(key.text, StandardCharsets.UTF_8);
        return "=" + (text.length() > LONGEST_KEY ? hash(key.hash) : text);
    }

    private String hash(int code) {
        try {
            byte[] digest =
                    MessageDigest.getInstance("SHA-256")
                            .digest((salt + code).getBytes(StandardCharsets.UTF_8));
            return String.format("%02x%02x%02x%02x", digest[0], digest[1], digest[2], digest[3]);
        } catch (NoSuchAlgorithmException absent) {
            throw new IllegalStateException("every JVM has SHA-256", absent);
        }
    }

    private static String base36(long number) {
        return Long.toString(number, 36);
    }
}
