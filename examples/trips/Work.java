package example;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;

/** What the work in a record does with the time that it takes. */
enum Work {
    /** Time passes and no CPU is taken, in inverse proportion to the replica's speed. */
    WAIT,

    /** CPU is burned, in inverse proportion to the replica's speed. */
    BURN,

    /** The same CPU is burned everywhere: what limits the CPU of a replica makes it slow. */
    LIMITED;

    /** A longer delay is a stall of the machine, which is not made up for. */
    private static final long LONGEST_LATE_NANOS = 1_000_000;

    /** Some microseconds of mixing bits, beside which asking for the CPU's clock costs little. */
    private static final int ROUNDS = 2_000;

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** Returns the work of a name: wait, burn or limited. */
    static Work named(String name) {
        for (Work work : values()) {
            if (work.name().toLowerCase(Locale.ROOT).equals(name)) {
                return work;
            }
        }
        throw new IllegalArgumentException(
                "Expected wait, burn or limited after --work, got " + name);
    }

    /**
     * Works for a time: of the clock on the wall, or of the thread's CPU.
     *
     * @param late how much longer than asked for the last call took
     * @return how much longer this one took
     */
    long take(long nanos, long late) throws InterruptedException {
        long now = now();
        long end = now - late + nanos;
        for (; now < end; now = now()) {
            if (Thread.interrupted()) {
                throw new InterruptedException("The task was cancelled in the middle of a record");
            }
            if (this == WAIT) {
                LockSupport.parkNanos(end - now);
            } else {
                mix(now);
            }
        }
        // Taken off the next record: the system wakes a thread some 0.1 ms late.
        return Math.min(now - end, LONGEST_LATE_NANOS);
    }

    private long now() {
        return this == WAIT ? System.nanoTime() : THREADS.getCurrentThreadCpuTime();
    }

    private static void mix(long bits) {
        for (int round = 0; round < ROUNDS; round++) {
            bits = Draws.bits(bits, round);
        }
        if (bits == 0) {
            Thread.onSpinWait(); // the result is asked for, so no compiler leaves the rounds out
        }
    }
}
