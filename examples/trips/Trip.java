package example;

/** A record of the job; its event time is the Flink timestamp that it travels with. */
public class Trip {
    /** Consecutive from 0, in the order of the schedule. */
    public long id;

    /** The key, in [0, zones). */
    public int zone;

    /** Which record of its zone it is, from 1; 0 until {@link Aggregate} has counted it. */
    public long number;

    /** What else a real record carries; it decides how many records wait in Flink's buffers. */
    public byte[] payload;
}
