package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class OperatorsTest {
    @Test
    void aNameIsPlainAndShortAndLeavesOutTheNumbersOfSql() {
        assertEquals("source-src", Operators.slug("Source: src[11]"));
        assertEquals("operator", Operators.slug("[3]"));
        assertEquals("a".repeat(39), Operators.slug("a".repeat(39) + "/" + "b".repeat(9)));
    }
}
