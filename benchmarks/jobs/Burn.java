package example;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import org.apache.flink.api.common.functions.MapFunction;

/**
 * Work that a core feels: each record takes the same CPU time, so on half a core twice as long.
 *
 * <p>Measured by the thread's own CPU clock, which stands still while the container is throttled.
 */
final class Burn implements MapFunction<Trip, Trip> {
    private static final long serialVersionUID = 1;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** Rounds between two looks at the clock, some 10 microseconds. */
    private static final int ROUNDS = 2_000;

    /** Where results end, so that no compiler takes the work for useless. */
    private static volatile long ash;

    private final long nanos;

    /**
     * @param milliseconds CPU time per record
     */
    Burn(double milliseconds) {
        if (!(milliseconds >= 0)) {
            throw new IllegalArgumentException(
                    "Expected CPU time >= 0 ms after --burn-ms, got " + milliseconds);
        }
        nanos = Math.round(milliseconds * 1e6);
    }

    @Override
    public Trip map(Trip trip) {
        long end = THREADS.getCurrentThreadCpuTime() + nanos;
        long bits = trip.id;
        while (THREADS.getCurrentThreadCpuTime() < end) {
            for (int round = 0; round < ROUNDS; round++) {
                bits = Draws.bits(bits, round);
            }
        }
        ash = bits;
        return trip;
    }
}
