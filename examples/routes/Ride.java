package example;

/** A taxi ride that ended; its event time, the moment of that, is the Flink timestamp. */
public class Ride {
    /** Consecutive from 0, in the order in which rides end. */
    public long id;

    public double fromLongitude;
    public double fromLatitude;
    public double toLongitude;
    public double toLatitude;

    /** Cell of departure and cell of arrival; null until {@link RouteOf} has found it. */
    public String route;
}
