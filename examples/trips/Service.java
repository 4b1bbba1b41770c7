package example;

import dev.weir.Weir;
import java.io.Serializable;
import java.util.Random;
import java.util.concurrent.locks.LockSupport;

/**
 * Work that takes time and no CPU: gamma distributed at speed 1, divided by the replica's speed.
 *
 * <p>A record's work depends on the seed and its id alone, so that deployments can be compared on
 * the same work.
 */
final class Service implements Serializable {
    private static final long serialVersionUID = 1;

    /** A longer delay is a stall of the machine, which is not made up for. */
    private static final long LONGEST_LATE_NANOS = 1_000_000;

    private final double mean;
    private final double scv;
    private final long seed;
    private transient long late; // nanoseconds that the last record took too long

    /**
     * @param mean seconds at speed 1
     * @param scv squared coefficient of variation; 0 is constant, 1 exponential
     */
    Service(double mean, double scv, long seed) {
        if (!(mean >= 0) || !(scv >= 0)) {
            throw new IllegalArgumentException(
                    "Expected a service time >= 0 with scv >= 0, got " + mean + " s, " + scv);
        }
        this.mean = mean;
        this.scv = scv;
        this.seed = seed;
    }

    /** Returns the seconds of work in a record, at speed 1. */
    double seconds(long id) {
        if (scv == 0) {
            return mean;
        }
        return mean * scv * gamma(1 / scv, new Random(Draws.bits(seed, id)));
    }

    /** Waits as long as the work in a record takes at the replica's present speed. */
    void serve(long id) throws InterruptedException {
        // The system wakes a thread some 0.1 ms late: taken off the next wait, the mean is right.
        long end = System.nanoTime() - late + Math.round(seconds(id) / Weir.speed() * 1e9);
        for (long left = end - System.nanoTime(); left > 0; left = end - System.nanoTime()) {
            if (Thread.interrupted()) {
                throw new InterruptedException("The task was cancelled in the middle of a record");
            }
            LockSupport.parkNanos(left);
        }
        late = Math.min(System.nanoTime() - end, LONGEST_LATE_NANOS);
    }

    /** Draws from the gamma distribution of scale 1 (Marsaglia and Tsang, ACM TOMS 2000). */
    private static double gamma(double shape, Random random) {
        if (shape < 1) {
            return gamma(shape + 1, random) * Math.pow(1 - random.nextDouble(), 1 / shape);
        }
        double d = shape - 1.0 / 3;
        double c = 1 / Math.sqrt(9 * d);
        while (true) {
            double x = random.nextGaussian();
            double v = Math.pow(1 + c * x, 3);
            double u = 1 - random.nextDouble();
            if (v > 0 && Math.log(u) < x * x / 2 + d - d * v + d * Math.log(v)) {
                return d * v;
            }
        }
    }
}
