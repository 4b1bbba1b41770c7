package example;

/** Numbers that look random and are functions of their index: a restored job repeats them. */
final class Draws {
    private Draws() {}

    /** Returns 64 well-mixed bits of a seed and an index (the finaliser of SplitMix64). */
    static long bits(long seed, long index) {
        long z = seed + (index + 1) * 0x9E3779B97F4A7C15L;
        z = (z ^ (z >>> 30)) * 0xBF58476D1CE4E5B9L;
        z = (z ^ (z >>> 27)) * 0x94D049BB133111EBL;
        return z ^ (z >>> 31);
    }
}
