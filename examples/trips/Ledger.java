package example;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.BitSet;

/**
 * Which records arrived, and whether each did once and in the order of its zone.
 *
 * <p>Small, because records arrive nearly in order: all ids below `base` have arrived, and a bit
 * set holds those above.
 */
final class Ledger {
    private static final int COMPACT_AT = 8192;

    private long base;
    private long distinct;
    private long doubled;
    private long highest = -1;
    private long sequenceErrors;
    private BitSet above = new BitSet();
    private long[] lastOfZone = new long[0];

    /** Enters a record: its id, its zone, and the number that it has in its zone. */
    void enter(long id, int zone, long number) {
        if (id < base || above.get((int) (id - base))) {
            doubled++;
        } else {
            above.set((int) (id - base));
            distinct++;
            highest = Math.max(highest, id);
        }
        if (zone >= lastOfZone.length) {
            lastOfZone = Arrays.copyOf(lastOfZone, Math.max(zone + 1, 2 * lastOfZone.length));
        }
        if (number != lastOfZone[zone] + 1) {
            sequenceErrors++;
        }
        lastOfZone[zone] = number;
        compact();
    }

    private void compact() {
        if (above.get(0) && above.length() > COMPACT_AT) {
            int arrived = above.nextClearBit(0);
            above = above.get(arrived, Math.max(arrived, above.length()));
            base += arrived;
        }
    }

    long distinct() {
        return distinct;
    }

    /** Returns arrivals of records that had arrived before. */
    long doubled() {
        return doubled;
    }

    /** Returns the highest id that arrived, -1 before the first. */
    long highest() {
        return highest;
    }

    /** Returns how many ids below the highest have not arrived; some may be on their way. */
    long missing() {
        return highest + 1 - distinct;
    }

    /** Returns records whose number was not the successor of the last one of their zone. */
    long sequenceErrors() {
        return sequenceErrors;
    }

    /** Returns the summary that stands in `ledger.json`. */
    String toJson(long checkpoint) {
        return String.format(
                "{\"checkpoint\": %d, \"distinct\": %d, \"doubled\": %d, \"missing\": %d, "
                        + "\"highest\": %d, \"sequenceErrors\": %d}%n",
                checkpoint, distinct, doubled, missing(), highest, sequenceErrors);
    }

    byte[] toBytes() {
        long[] bits = above.toLongArray();
        ByteBuffer bytes = ByteBuffer.allocate(Long.BYTES * (6 + bits.length + lastOfZone.length));
        bytes.putLong(base).putLong(distinct).putLong(doubled).putLong(highest);
        bytes.putLong(sequenceErrors).putLong(bits.length);
        bytes.asLongBuffer().put(bits).put(lastOfZone);
        return bytes.array();
    }

    static Ledger fromBytes(byte[] state) {
        ByteBuffer bytes = ByteBuffer.wrap(state);
        Ledger ledger = new Ledger();
        ledger.base = bytes.getLong();
        ledger.distinct = bytes.getLong();
        ledger.doubled = bytes.getLong();
        ledger.highest = bytes.getLong();
        ledger.sequenceErrors = bytes.getLong();
        long[] bits = new long[(int) bytes.getLong()];
        ledger.lastOfZone = new long[bytes.remaining() / Long.BYTES - bits.length];
        bytes.asLongBuffer().get(bits).get(ledger.lastOfZone);
        ledger.above = BitSet.valueOf(bits);
        return ledger;
    }
}
