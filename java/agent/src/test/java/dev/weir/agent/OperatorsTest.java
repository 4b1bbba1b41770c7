package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.Test;

class OperatorsTest {
    @Test
    void noTwoOperatorsHaveOneName() {
        Set<String> used = new HashSet<>();

        List<String> names = new ArrayList<>();
        for (String name : List.of("map", "map-2", "map", "map")) {
            names.add(Operators.unused(name, used));
        }

        assertEquals(List.of("map", "map-2", "map-3", "map-4"), names);
    }

    @Test
    void aNameIsPlainAndShortAndLeavesOutTheNumbersOfSql() {
        assertEquals("source-src", Operators.slug("Source: src[11]"));
        assertEquals("operator", Operators.slug("[3]"));
        assertEquals("a".repeat(39), Operators.slug("a".repeat(39) + "/" + "b".repeat(9)));
    }
}
