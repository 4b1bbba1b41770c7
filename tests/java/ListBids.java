package example;

/** Tells what `HotItems` gets: `ListBids RATES SLOT SEED ITEMS`, a line per bid: ms due, item. */
public final class ListBids {
    private ListBids() {}

    /** Prints the bids; when one is due counts from the start of the trace. */
    public static void main(String[] args) {
        String[] given = args[0].split(",");
        double[] rates = new double[given.length];
        for (int i = 0; i < rates.length; i++) {
            rates[i] = Double.parseDouble(given[i]);
        }
        long seed = Long.parseLong(args[2]);
        int items = Integer.parseInt(args[3]);
        long itemSeed = Draws.bits(seed, "item".hashCode());
        Schedule.Cursor next =
                new Schedule(rates, Double.parseDouble(args[1]), seed, false).begin();
        for (; next.due() != Schedule.NEVER; next.advance()) {
            long due = Math.round(next.due() / 1000.0);
            System.out.println(due + " " + Bid.item(next.id(), items, itemSeed));
        }
    }
}
