package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.Map;
import org.apache.flink.runtime.state.KeyGroupRangeAssignment;
import org.junit.jupiter.api.Test;

class KeyCountsTest {
    private static final long NOW = 120_000L * 1000;

    @Test
    void recordsAreCountedByKeyGroupAndByKey() {
        KeyCounts counts = new KeyCounts("sums", 4, Map.of(KeyCounts.REPORTS_KEYS, "true"), NOW);

        for (int record = 0; record < 100; record++) {
            counts.add(record < 70 ? "hot key" : "k" + record, NOW);
        }

        String[] words = counts.line(NOW).split(" ");
        assertEquals("sums 4 2s 0 1", String.join(" ", Arrays.copyOf(words, 5)));
        long[] groups =
                Arrays.stream(words[5].split(","))
                        .mapToLong(n -> Long.parseLong(n, 36))
                        .toArray();
        assertEquals(100, Arrays.stream(groups).sum());
        int group = KeyGroupRangeAssignment.assignToKeyGroup("hot key", 4);
        assertTrue(groups[group] >= 70, words[5]);
        assertEquals("=hot+key:" + group + ":" + Long.toString(70, 36), words[6].split(",")[0]);
    }

    @Test
    void theFirstSecondIsNotCounted() {
        KeyCounts counts = new KeyCounts("sums", 1, Map.of(), NOW);

        int first = counts.add("early", NOW - 1000);
        int later = 0;
        for (int record = 0; record < 20; record++) {
            later = counts.add("early", NOW - 1);
        }
        counts.add("late", NOW);

        assertEquals(1, first);
        assertEquals(256, later);
        assertTrue(counts.line(NOW).startsWith("sums 1 1 0 1 1 "), counts.line(NOW));
    }

    @Test
    void keysAreHashedWithTheSalt() {
        String[] lines = new String[3];
        for (int line = 0; line < 3; line++) {
            String salt = line == 2 ? "other" : "own";
            KeyCounts counts = new KeyCounts("sums", 4, Map.of(KeyCounts.SALT, salt), NOW);
            counts.add("Ada", NOW);
            lines[line] = counts.line(NOW);
        }

        assertTrue(lines[0].matches(".* [0-9a-f]{8}:[0-3]:1"), lines[0]);
        assertEquals(lines[0], lines[1]);
        assertNotEquals(lines[0], lines[2]);
    }

    @Test
    void whatCameLongAgoWeighsLess() {
        KeyCounts counts = new KeyCounts("sums", 1, Map.of(), NOW);
        for (int record = 0; record < 100; record++) {
            counts.add(1, NOW);
        }

        assertEquals("25", decimal(counts.line(NOW + 240_000)));

        for (int record = 0; record < 30; record++) {
            counts.add(2, NOW + 240_000);
        }
        assertEquals("55", decimal(counts.line(NOW + 240_000)));
    }

    @Test
    void ofManyRecordsSomeAreCountedForAll() {
        KeyCounts counts = new KeyCounts("sums", 2, Map.of(), NOW);
        int passed = 2_000_000;
        int added = 0;
        int due = 0;
        for (int record = 0; record < passed; record++) {
            if (record == due) {
                due += counts.add(record % 4 == 0 ? 1 : 2, NOW);
                added++;
            }
        }

        assertTrue(added < 200_000, added + " counted in a second");
        String[] words = counts.line(NOW).split(" ");
        int shift = Integer.parseInt(words[3], 36);
        long[] groups =
                Arrays.stream(words[5].split(","))
                        .mapToLong(n -> Long.parseLong(n, 36) << shift)
                        .toArray();
        assertEquals(passed, groups[0] + groups[1], 0.1 * passed);
        int group = KeyGroupRangeAssignment.assignToKeyGroup(1, 2);
        int other = KeyGroupRangeAssignment.assignToKeyGroup(2, 2);
        assertNotEquals(group, other);
        assertEquals(0.25, (double) groups[group] / (groups[0] + groups[1]), 0.03);
    }

    @Test
    void timeIsAddedByKeyGroupForTheRecordsThatWereNotTimedToo() {
        KeyCounts work = new KeyCounts(".", 2, Map.of(), NOW);
        for (int record = 0; record < 100; record++) {
            work.addWork(record % 2, record % 2 == 0 ? 1_000 : 5_000, 1, NOW);
        }

        String[] words = work.line(NOW).split(" ");
        int shift = Integer.parseInt(words[3], 36);
        double[] groups =
                Arrays.stream(words[5].split(","))
                        .mapToDouble(n -> Long.parseLong(n, 36) << shift)
                        .toArray();
        assertEquals(". 2", words[0] + " " + words[1]);
        assertEquals(50 * 1_000, groups[0], 16);
        assertEquals(50 * 5_000, groups[1], 16);
        // (50 * 1 + 50 * 5)^2 / (50 * 1^2 + 50 * 5^2) records of one length say as much.
        assertEquals(69, Long.parseLong(words[2], 36));
        assertEquals(35, Long.parseLong(work.line(NOW + 120_000).split(" ")[2], 36));

        work.addWork(0, 1_000, 60, NOW);
        assertEquals(26, Long.parseLong(work.line(NOW).split(" ")[2], 36));
    }

    @Test
    void noLineIsLongerThanFourKibibytes() {
        for (int groups : new int[] {128, 720, 32768}) {
            KeyCounts counts =
                    new KeyCounts(
                            "a".repeat(40), groups, Map.of(KeyCounts.REPORTS_KEYS, "true"), NOW);
            for (int key = 0; key < 300_000; key++) {
                counts.add(key % 3 == 0 ? "ß".repeat(50) + key % 15 : "k" + key, NOW + key / 10);
            }

            String line = counts.line(NOW + 30_000);

            assertTrue(line.length() <= 4096, groups + ": " + line.length());
            assertTrue(line.split(" ")[5].split(",").length <= 768);
        }
    }

    private static String decimal(String line) {
        return Long.toString(Long.parseLong(line.split(" ")[5], 36));
    }
}
