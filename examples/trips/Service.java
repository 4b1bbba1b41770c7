package example;

import dev.weir.Weir;
import java.io.Serializable;
import java.util.Random;

/**
 * How much work is in a record: gamma distributed seconds at speed 1.
 *
 * <p>A record's work depends on the seed and its id alone, so that deployments can be compared on
 * the same work.
 */
final class Service implements Serializable {
    private static final long serialVersionUID = 1;

    private final double mean;
    private final double scv;
    private final long seed;
    private final Work work;
    private transient long late; // nanoseconds that the last record took too long

    /**
     * @param mean seconds at speed 1
     * @param scv squared coefficient of variation; 0 is constant, 1 exponential
     */
    Service(double mean, double scv, long seed, Work work) {
        if (!(mean >= 0) || !(scv >= 0)) {
            throw new IllegalArgumentException(
                    "Expected a service time >= 0 with scv >= 0, got " + mean + " s, " + scv);
        }
        this.mean = mean;
        this.scv = scv;
        this.seed = seed;
        this.work = work;
    }

    /** Returns the seconds of work in a record, at speed 1. */
    double seconds(long id) {
        if (scv == 0) {
            return mean;
        }
        return mean * scv * gamma(1 / scv, new Random(Draws.bits(seed, id)));
    }

    /** Does the work in a record, at the replica's present speed unless the CPU is limited. */
    void serve(long id) throws InterruptedException {
        double speed = work == Work.LIMITED ? 1 : Weir.speed();
        late = work.take(Math.round(seconds(id) / speed * 1e9), late);
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
