package example;

/** How often a route was taken in the window that ends with this record's Flink timestamp. */
public class RouteCount {
    public String route;

    public long count;

    /** Its place among the most frequent, from 1; 0 until {@link Rank} has given it one. */
    public int rank;

    public RouteCount() {}

    RouteCount(String route, long count) {
        this.route = route;
        this.count = count;
    }

    /** Compares by rank: the more frequent first, of equals the first by name. */
    static int byRank(RouteCount a, RouteCount b) {
        return a.count != b.count ? Long.compare(b.count, a.count) : a.route.compareTo(b.route);
    }
}
