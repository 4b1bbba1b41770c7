package dev.weir.agent;

/** Random numbers for one thread, in a nanosecond. */
final class Randomness {
    private long seed = System.nanoTime() | 1;

    /** Returns 1 to 2 mean - 1, mean on average. */
    int around(int mean) {
        if (mean == 1) {
            return 1;
        }
        long x = seed;
        x ^= x << 13;
        x ^= x >>> 7;
        x ^= x << 17;
        seed = x;
        return 1 + (int) ((x >>> 33) % (2 * mean - 1));
    }
}
