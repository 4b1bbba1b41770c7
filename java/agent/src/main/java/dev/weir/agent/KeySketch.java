package dev.weir.agent;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;

/**
 * The keys that bring many of the records, by their hash codes: every key with more than one in 256
 * of them is among these, and its weight is at most as much too high. One thread adds; what another
 * reads may be a record old.
 *
 * <p>At most 512 keys are held. When there is room for no more, the median of their weights is taken
 * from all, and those with nothing left go: so of n records, no key has lost more than n / 256, and
 * what a key that was always held has lost is known.
 *
 * <p>Source: Misra, Gries, "Finding repeated elements", 1982; with the median as in Anderson et al.,
 * "A High-Performance Algorithm for Identifying Frequent Items in Data Streams", IMC 2017.
 */
final class KeySketch {
    static final int MOST_KEYS = 512;
    private static final int SLOTS = 2 * MOST_KEYS; // a power of two
    private static final int LONGEST_TEXT = 40;

    private final boolean keepsTexts;
    private volatile Table table = new Table();

    KeySketch(boolean keepsTexts) {
        this.keepsTexts = keepsTexts;
    }

    /** Count records of a key. */
    void add(Object key, int hash, long weight) {
        Table held = table;
        int slot = held.slot(hash);
        if (held.weights[slot] == 0) {
            if (held.used == MOST_KEYS) {
                held = held.without(held.median(), 0);
                table = held;
                slot = held.slot(hash);
            }
            held.used++;
            held.hashes[slot] = hash;
            held.texts[slot] = keepsTexts ? shorten(String.valueOf(key)) : null;
        }
        held.weights[slot] += weight;
    }

    /** Divide all weights by a power of two. */
    void halve(int times) {
        table = table.without(0, times);
    }

    /** Returns the keys of at least this weight, the heaviest first. */
    List<Key> heaviest(long atLeast, int most) {
        Table held = table;
        List<Key> found = new ArrayList<>();
        for (int slot = 0; slot < SLOTS; slot++) {
            long weight = held.weights[slot];
            if (weight > 0 && weight + held.taken >= atLeast) {
                found.add(new Key(held.hashes[slot], weight + held.taken, held.texts[slot]));
            }
        }
        found.sort(Comparator.comparingLong((Key key) -> key.weight).reversed());
        return found.subList(0, Math.min(most, found.size()));
    }

    private static String shorten(String text) {
        return text.length() > LONGEST_TEXT ? text.substring(0, LONGEST_TEXT) : text;
    }

    /** A key and how many records it brought. */
    static final class Key {
        final int hash;
        final long weight;
        final String text;

        Key(int hash, long weight, String text) {
            this.hash = hash;
            this.weight = weight;
            this.text = text;
        }
    }

    /** Weights by hash code, in the next free slot where two want the same. */
    private static final class Table {
        final int[] hashes = new int[SLOTS];
        final long[] weights = new long[SLOTS]; // 0 where the slot is free
        final String[] texts = new String[SLOTS];
        int used;
        long taken;

        int slot(int hash) {
            int slot = hash * 0x9E3779B9 >>> Integer.numberOfLeadingZeros(SLOTS - 1);
            while (weights[slot] != 0 && hashes[slot] != hash) {
                slot = (slot + 1) & (SLOTS - 1);
            }
            return slot;
        }

        long median() {
            long[] sorted = Arrays.stream(weights).filter(weight -> weight > 0).sorted().toArray();
            return sorted[sorted.length / 2];
        }

        Table without(long less, int halvings) {
            Table left = new Table();
            left.taken = (taken + less) >> halvings;
            for (int slot = 0; slot < SLOTS; slot++) {
                long weight = (weights[slot] - less) >> halvings;
                if (weight > 0) {
                    int place = left.slot(hashes[slot]);
                    left.hashes[place] = hashes[slot];
                    left.weights[place] = weight;
                    left.texts[place] = texts[slot];
                    left.used++;
                }
            }
            return left;
        }
    }
}
