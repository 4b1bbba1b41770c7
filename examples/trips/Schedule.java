package example;

import java.io.Serializable;
import java.util.SplittableRandom;

/**
 * When each record is due: a Poisson process whose rate is the trace's, slot by slot.
 *
 * <p>The gaps within a slot are exponential, which makes the number of arrivals Poisson and their
 * times uniform order statistics. The draws of a slot depend on the seed and the slot alone, so a
 * cursor restored in the middle of a slot continues the very same schedule.
 */
final class Schedule implements Serializable {
    private static final long serialVersionUID = 1;

    /** What {@link Cursor#due} answers where nothing is left to come. */
    static final long NEVER = Long.MAX_VALUE;

    private final double[] rates;
    private final double slotSeconds;
    private final long seed;
    private final boolean hold;

    /**
     * @param rates records/s, one per slot
     * @param hold whether the last rate goes on for ever
     */
    Schedule(double[] rates, double slotSeconds, long seed, boolean hold) {
        if (!(slotSeconds > 0)) {
            throw new IllegalArgumentException("Expected slots of > 0 s, got " + slotSeconds);
        }
        this.rates = rates;
        this.slotSeconds = slotSeconds;
        this.seed = seed;
        this.hold = hold;
    }

    /** Returns whether the schedule ends, so that a job on it can. */
    boolean isFinite() {
        return !hold;
    }

    /** Returns a cursor at the first record. */
    Cursor begin() {
        return at(new Position(0, 0, 0));
    }

    /** Returns a cursor that goes on where another one was. */
    Cursor at(Position position) {
        return new Cursor(position);
    }

    private double rate(long slot) {
        return rates[(int) Math.min(slot, rates.length - 1)];
    }

    private boolean isOver(long slot) {
        return slot >= rates.length && (!hold || rates[rates.length - 1] == 0);
    }

    /** Where a cursor stands; all it takes to go on. */
    static final class Position {
        final long slot;
        /** Records of the slot that are passed. */
        final long passed;
        /** The next record's id, which is the number of all records that are passed. */
        final long id;

        Position(long slot, long passed, long id) {
            this.slot = slot;
            this.passed = passed;
            this.id = id;
        }
    }

    /** Walks over the records in the order in which they are due. */
    final class Cursor {
        private long slot;
        private long passed;
        private long id;
        private SplittableRandom random;
        private double seconds; // of the next record, within the slot

        private Cursor(Position position) {
            id = position.id;
            enter(position.slot);
            while (passed < position.passed) {
                draw();
                passed++;
            }
            leaveFinishedSlots();
        }

        Position position() {
            return new Position(slot, passed, id);
        }

        /** Returns the next record's id. */
        long id() {
            return id;
        }

        /** Returns when the next record is due, microseconds after the start, or NEVER. */
        long due() {
            return isOver(slot) ? NEVER : Math.round((slot * slotSeconds + seconds) * 1e6);
        }

        /** Passes the next record. */
        void advance() {
            id++;
            passed++;
            draw();
            leaveFinishedSlots();
        }

        private void leaveFinishedSlots() {
            while (seconds >= slotSeconds && !isOver(slot)) {
                enter(slot + 1);
            }
        }

        private void enter(long next) {
            slot = next;
            passed = 0;
            seconds = 0;
            random = new SplittableRandom(Draws.bits(seed, slot));
            draw();
        }

        private void draw() {
            seconds -= Math.log(1 - random.nextDouble()) / rate(slot); // rate 0: infinity
        }
    }
}
