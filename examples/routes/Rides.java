package example;

import java.io.Serializable;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Arrays;
import java.util.Locale;
import org.apache.flink.util.ParameterTool;

/**
 * Makes up taxi rides as lines of text: identity, departure, arrival, and both places.
 *
 * <p>Which route a ride takes follows Zipf's law, and where its route leads is drawn once. As in
 * real logs, some places lie outside the city and some lines are broken. A ride depends on the seed
 * and its id alone, and on when it ends.
 */
final class Rides implements Serializable {
    private static final long serialVersionUID = 1;

    private static final double BROKEN = 0.01;
    private static final double OUTSIDE = 0.04;
    private static final int SHORTEST_MS = 3 * 60_000;
    private static final int LONGEST_MS = 40 * 60_000;

    private final long seed;
    private final double[] shares; // of the routes up to each, cumulated

    /**
     * @param routes how many different ones there are
     * @param exponent of Zipf's law: the route of rank r is taken in proportion to 1 / r^exponent
     */
    Rides(long seed, int routes, double exponent) {
        if (routes < 1 || !(exponent >= 0)) {
            throw new IllegalArgumentException(
                    "Expected at least 1 route and an exponent >= 0, got "
                            + routes
                            + " and "
                            + exponent);
        }
        this.seed = seed;
        shares = new double[routes];
        double sum = 0;
        for (int i = 0; i < routes; i++) {
            sum += Math.pow(i + 1, -exponent);
            shares[i] = sum;
        }
        for (int i = 0; i < routes; i++) {
            shares[i] /= sum;
        }
    }

    /** Reads what the arguments say: {@code --seed}, {@code --routes} and {@code --zipf}. */
    static Rides from(ParameterTool settings) {
        return new Rides(
                settings.getLong("seed", 7),
                settings.getInt("routes", 400),
                settings.getDouble("zipf", 1.0));
    }

    /**
     * Returns the line of a ride.
     *
     * @param endedMs when it ended, Unix ms
     */
    String line(long id, long endedMs) {
        double kind = draw(id, 0);
        if (kind < BROKEN) {
            return id + ",," + Instant.ofEpochMilli(endedMs) + ",n/a";
        }
        int rank = Math.min(find(draw(id, 1)), shares.length - 1);
        double away = kind < BROKEN + OUTSIDE ? City.COLUMNS * City.CELL : 0;
        long tookMs = SHORTEST_MS + (long) (draw(id, 2) * (LONGEST_MS - SHORTEST_MS));
        return String.format(
                Locale.ROOT,
                "%d,%s,%s,%.6f,%.6f,%.6f,%.6f",
                id,
                Instant.ofEpochMilli(endedMs - tookMs),
                Instant.ofEpochMilli(endedMs),
                longitude(-1 - 2L * rank, draw(id, 3)),
                latitude(-1 - 2L * rank, draw(id, 4)),
                longitude(-2 - 2L * rank, draw(id, 5)) + away,
                latitude(-2 - 2L * rank, draw(id, 6)));
    }

    private int find(double share) {
        int place = Arrays.binarySearch(shares, share);
        return place >= 0 ? place : -place - 1;
    }

    /** Returns a place in the column of an end of a route; ends have the negative indices. */
    private double longitude(long end, double within) {
        int column = (int) (draw(end, 0) * City.COLUMNS);
        return City.WEST + City.CELL * (column + inner(within));
    }

    private double latitude(long end, double within) {
        int row = (int) (draw(end, 1) * City.ROWS);
        return City.SOUTH + City.CELL * (row + inner(within));
    }

    /** Keeps away from the edges of a cell, where six digits do not tell on which side. */
    private static double inner(double within) {
        return 0.01 + 0.98 * within;
    }

    private double draw(long index, long which) {
        return (Draws.bits(Draws.bits(seed, which), index) >>> 11) * 0x1.0p-53;
    }

    /**
     * Prints the lines of a whole trace, each behind the Unix ms at which its ride ended. The
     * arguments are those of {@link Routes}; {@code --start-at} must be given.
     */
    public static void main(String[] args) throws Exception {
        ParameterTool settings = ParameterTool.fromArgs(args);
        Rides rides = from(settings);
        long start = Long.parseLong(settings.getRequired("start-at"));
        double[] rates = Trace.read(Path.of(settings.getRequired("trace")));
        double slot = settings.getDouble("slot-seconds", 5);
        Schedule.Cursor next =
                new Schedule(rates, slot, settings.getLong("seed", 7), false).begin();
        for (; next.due() != Schedule.NEVER; next.advance()) {
            long endedMs = start + Math.round(next.due() / 1000.0);
            System.out.println(endedMs + " " + rides.line(next.id(), endedMs));
        }
    }
}
