package example;

/** An event of an auction house: a person, an auction or a bid; the other two are null. */
public class Event {
    public Person person;
    public Auction auction;
    public Bid bid;

    /** Somebody who registers, to sell or to bid. */
    public static class Person {
        public long id;
        public String name;
        public String city;
        public String state;
        public String extra;
    }

    /** What a person sells. */
    public static class Auction {
        public long id;
        public long seller;
        public int category;

        /** When it closes, Unix ms. */
        public long expires;

        public String extra;
    }

    /** An offer for an auction. */
    public static class Bid {
        public long auction;
        public long bidder;
        public long price;
        public String extra;
    }
}
