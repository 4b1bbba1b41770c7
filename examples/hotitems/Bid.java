package example;

import org.apache.flink.api.common.functions.MapFunction;

/** Makes a bid of a record: chooses its item, which is its zone. */
final class Bid implements MapFunction<Trip, Trip> {
    /** Of so many bids one goes to the item that is hot at the time. */
    private static final int HOT_SHARE = 4;

    /** Bids for which an item stays hot. */
    private static final long HOT_FOR = 200;

    private final Service service;
    private final int items;
    private final long seed;

    /**
     * @param items how many items there are
     */
    Bid(Service service, int items, long seed) {
        this.service = service;
        this.items = items;
        this.seed = seed;
    }

    @Override
    public Trip map(Trip bid) throws InterruptedException {
        service.serve(bid.id);
        bid.zone = item(bid.id, items, seed);
        return bid;
    }

    /** Returns the item of a bid: a function of its id, so a restored job repeats it. */
    static int item(long id, int items, long seed) {
        long drawn = Draws.bits(seed, id);
        long chosen = drawn % HOT_SHARE == 0 ? Draws.bits(seed, -1 - id / HOT_FOR) : drawn >>> 8;
        return (int) Long.remainderUnsigned(chosen, items);
    }
}
