package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.junit.jupiter.api.Test;

class KeySketchTest {
    @ParameterizedTest
    @ValueSource(doubles = {0.8, 1.0, 1.2})
    void everyKeyAboveOnePerCentIsFoundAndNoWeightIsFarOff(double exponent) {
        KeySketch sketch = new KeySketch(false);
        Map<Integer, Integer> truth = new HashMap<>();
        int records = 200_000;
        for (int key : zipf(100_000, exponent, records)) {
            sketch.add(key, key, 1);
            truth.merge(key, 1, Integer::sum);
        }

        Map<Integer, Long> found = new HashMap<>();
        sketch.heaviest(records / 100, 100).forEach(key -> found.put(key.hash, key.weight));

        Set<Integer> heavy = new HashSet<>();
        truth.forEach((key, count) -> heavy.addAll(count * 100 > records ? Set.of(key) : Set.of()));
        assertTrue(found.keySet().containsAll(heavy), heavy + " in " + found);
        found.forEach(
                (key, weight) -> {
                    assertTrue(weight >= truth.get(key), "not too low");
                    assertTrue(weight - truth.get(key) <= records / 256, "not far too high");
                });
    }

    @Test
    void whatIsHalvedWeighsHalf() {
        KeySketch sketch = new KeySketch(false);
        sketch.add("a", 1, 100);
        sketch.add("b", 1 << 20, 1);

        sketch.halve(2);

        List<KeySketch.Key> found = sketch.heaviest(1, 5);
        assertEquals(1, found.size());
        assertEquals(25, found.get(0).weight);
    }

    @Test
    void textsOfKeysAreKeptOnlyWhereTheyAreAskedFor() {
        KeySketch hashes = new KeySketch(false);
        KeySketch texts = new KeySketch(true);

        hashes.add("Ada", 7, 1);
        texts.add("x".repeat(100), 7, 1);

        assertNull(hashes.heaviest(1, 5).get(0).text);
        assertEquals("x".repeat(40), texts.heaviest(1, 5).get(0).text);
    }

    /** Returns records of keys, the first of which is the heaviest. */
    private static int[] zipf(int keys, double exponent, int records) {
        double[] upTo = new double[keys];
        double sum = 0;
        for (int key = 0; key < keys; key++) {
            sum += Math.pow(key + 1, -exponent);
            upTo[key] = sum;
        }
        Random random = new Random(7);
        int[] drawn = new int[records];
        for (int record = 0; record < records; record++) {
            int place = java.util.Arrays.binarySearch(upTo, random.nextDouble() * sum);
            drawn[record] = place < 0 ? -place - 1 : place;
        }
        return drawn;
    }
}
