package example;

/** A job that fails before it has built anything. */
public final class Throws {
    private Throws() {}

    public static void main(String[] args) {
        throw new IllegalStateException("The lookup table is missing");
    }
}
