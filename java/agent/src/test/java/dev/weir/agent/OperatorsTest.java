package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
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
        assertEquals("uberprufen-gross", Operators.slug("\u00dcberpr\u00fcfen / gro\u00df"));
    }

    @Test
    void operatorsAreJoinedInTheOrderOfTheProgramAndBearTheLeastLimit() {
        List<Operator> operators = List.of(operator("a", 8), operator("b", 1), operator("c", 4));

        List<Operator> joined = Operators.join(operators, Map.of("weir.vertices.ends", "c a"));

        assertEquals(
                List.of("ends 4", "b 1"),
                joined.stream()
                        .map(each -> each.name + " " + each.limit)
                        .collect(Collectors.toList()));
    }

    @Test
    void anOperatorThatThereIsNotIsRefused() {
        List<Operator> operators = List.of(operator("a", 8));

        Refusal refusal =
                assertThrows(
                        Refusal.class,
                        () -> Operators.join(operators, Map.of("weir.vertices.ends", "a x")));

        assertEquals("Expected vertices of [a], got x", refusal.getMessage());
    }

    private static Operator operator(String name, int limit) {
        Operator operator = new Operator(name);
        operator.limit = limit;
        return operator;
    }
}
