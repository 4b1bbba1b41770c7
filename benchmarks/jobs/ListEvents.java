package example;

/**
 * Tells what `Nexmark` gets: `ListEvents RATE SECONDS SEED AUCTION_SECONDS START`, a line per event,
 * tab-separated: when it is due (Unix ms), its kind, and its columns.
 */
public final class ListEvents {
    private ListEvents() {}

    /** Prints the events. */
    public static void main(String[] args) {
        long seed = Long.parseLong(args[2]);
        long start = Long.parseLong(args[4]);
        double[] rates = {Double.parseDouble(args[0]), 0};
        Generator generator =
                new Generator(
                        Draws.bits(seed, "event".hashCode()), Long.parseLong(args[3]) * 1000);
        Schedule.Cursor next =
                new Schedule(rates, Double.parseDouble(args[1]), seed, true).begin();
        for (; next.due() != Schedule.NEVER; next.advance()) {
            long time = start + Math.round(next.due() / 1000.0);
            System.out.println(time + "\t" + columns(generator.event(next.id(), time)));
        }
    }

    private static String columns(Event event) {
        if (event.person != null) {
            Event.Person person = event.person;
            return String.join(
                    "\t", "person", "" + person.id, person.name, person.city, person.state);
        }
        if (event.auction != null) {
            Event.Auction auction = event.auction;
            return String.join(
                    "\t",
                    "auction",
                    "" + auction.id,
                    "" + auction.seller,
                    "" + auction.category,
                    "" + auction.expires);
        }
        Event.Bid bid = event.bid;
        return String.join(
                "\t", "bid", "" + bid.auction, "" + bid.bidder, "" + bid.price, bid.extra);
    }
}
