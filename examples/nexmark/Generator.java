package example;

import org.apache.flink.streaming.api.functions.ProcessFunction;
import org.apache.flink.util.Collector;

/**
 * Makes an event of a record: a function of the record's id and time, so a restored job repeats it.
 *
 * <p>Shares of kinds, ids, hot items, prices and sizes are those of the generator of Apache Beam's
 * Nexmark suite, with its defaults. Two things differ: bids are for auctions that exist, and how
 * long an auction lasts is given in seconds.
 */
final class Generator extends ProcessFunction<Trip, Event> {
    /** Of so many events, the first is a person, the next are auctions, and the rest bids. */
    private static final int ROUND = 50;

    private static final int PERSONS = 1;
    private static final int AUCTIONS = 3;

    private static final long FIRST_ID = 1000;
    private static final int FIRST_CATEGORY = 10;
    private static final int CATEGORIES = 5;

    /** Bids go to one of so many auctions, the newest; likewise persons. */
    private static final int OPEN_AUCTIONS = 100;

    private static final int ACTIVE_PERSONS = 1000;

    /** All but one of so many bids or auctions are of the hot auction, bidder or seller. */
    private static final int HOT_AUCTION = 2;

    private static final int HOT_PERSON = 4;

    /** So many ids share a hot one. */
    private static final int HOT_FOR = 100;

    /** Bytes of an event as text, about. */
    private static final int PERSON_BYTES = 200;

    private static final int AUCTION_BYTES = 500;
    private static final int BID_BYTES = 100;

    private static final String[] STATES = {"AZ", "CA", "ID", "OR", "WA", "WY"};
    private static final String[] CITIES = {
        "Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle",
        "Kent", "Cheyenne"
    };
    private static final String[] FIRST_NAMES = {
        "Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"
    };
    private static final String[] LAST_NAMES = {
        "Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"
    };

    private final long seed;
    private final long auctionMillis;

    /**
     * @param auctionMillis how long an auction lasts on average
     */
    Generator(long seed, long auctionMillis) {
        this.seed = seed;
        this.auctionMillis = auctionMillis;
    }

    @Override
    public void processElement(Trip record, Context context, Collector<Event> out) {
        out.collect(event(record.id, context.timestamp()));
    }

    /** Returns the event with this number, from 0, at a time in Unix ms. */
    Event event(long number, long time) {
        Random random = new Random(Draws.bits(seed, number));
        long round = number / ROUND;
        int place = (int) (number % ROUND);
        Event event = new Event();
        if (place < PERSONS) {
            event.person = person(round, random);
        } else if (place < PERSONS + AUCTIONS) {
            event.auction = auction(round * AUCTIONS + place - PERSONS, round, time, random);
        } else {
            event.bid = bid(round, random);
        }
        return event;
    }

    private static Event.Person person(long index, Random random) {
        Event.Person person = new Event.Person();
        person.id = FIRST_ID + index;
        person.name = random.of(FIRST_NAMES) + " " + random.of(LAST_NAMES);
        person.city = random.of(CITIES);
        person.state = random.of(STATES);
        person.extra = random.text(PERSON_BYTES);
        return person;
    }

    private Event.Auction auction(long index, long lastPerson, long time, Random random) {
        Event.Auction auction = new Event.Auction();
        auction.id = FIRST_ID + index;
        auction.seller = FIRST_ID + aPerson(lastPerson, 0, random);
        auction.category = FIRST_CATEGORY + random.below(CATEGORIES);
        auction.expires = time + 1 + random.below((int) (2 * auctionMillis));
        auction.extra = random.text(AUCTION_BYTES);
        return auction;
    }

    private static Event.Bid bid(long lastPerson, Random random) {
        long last = lastPerson * AUCTIONS + AUCTIONS - 1;
        Event.Bid bid = new Event.Bid();
        bid.auction =
                FIRST_ID
                        + (random.below(HOT_AUCTION) > 0
                                ? last / HOT_FOR * HOT_FOR
                                : newest(last, OPEN_AUCTIONS, random));
        bid.bidder = FIRST_ID + aPerson(lastPerson, 1, random);
        bid.price = Math.round(Math.pow(10, 6 * random.share()) * 100);
        bid.extra = random.text(BID_BYTES);
        return bid;
    }

    /** Returns a person's index: sellers and bidders have hot ones of their own. */
    private static long aPerson(long last, int role, Random random) {
        return random.below(HOT_PERSON) > 0
                ? Math.min(last, last / HOT_FOR * HOT_FOR + role)
                : newest(last, ACTIVE_PERSONS, random);
    }

    private static long newest(long last, int count, Random random) {
        return last - random.below((int) Math.min(count, last + 1));
    }

    /** Draws of one event. */
    private static final class Random {
        private final long seed;
        private long drawn;

        Random(long seed) {
            this.seed = seed;
        }

        int below(int bound) {
            return (int) Long.remainderUnsigned(Draws.bits(seed, drawn++), bound);
        }

        /** Returns a number in [0, 1). */
        double share() {
            return (Draws.bits(seed, drawn++) >>> 11) * 0x1.0p-53;
        }

        String of(String[] words) {
            return words[below(words.length)];
        }

        /** Returns letters, as many as a record of about so many bytes has beside its columns. */
        String text(int bytes) {
            char[] letters = new char[bytes / 2 + below(bytes / 2)];
            for (int each = 0; each < letters.length; each++) {
                letters[each] = (char) ('a' + below(26));
            }
            return new String(letters);
        }
    }
}
