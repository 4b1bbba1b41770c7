package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.stream.Collectors;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.junit.jupiter.api.Test;

class ReportTest {
    @Test
    void aGraphIsReportedByOperatorAndVertex() {
        StreamGraph graph = Graphs.of(new Configuration());

        List<String> vertices = Report.vertices(graph);

        assertEquals(
                List.of("numbers 2 32768", "sums 2 4"),
                vertices.stream()
                        .map(line -> line.split(" "))
                        .map(words -> words[0] + " " + words[2] + " " + words[3])
                        .collect(Collectors.toList()));
        assertTrue(Report.details(graph).contains("edge numbers sums"));
    }

    @Test
    void aFlinkWithoutIterationsHasNoneInItsJobs() {
        assertFalse(Report.isIterative(new Object()));
        assertFalse(Report.isIterative(new Acyclic()));
        assertTrue(Report.isIterative(new Cyclic()));
    }

    @Test
    void aFlinkThatDoesNotSayWhetherAJobHasIterationsIsNotTrusted() {
        assertThrows(Refusal.class, () -> Report.isIterative(new Broken()));
    }

    public static class Acyclic {
        public boolean isIterative() {
            return false;
        }
    }

    public static class Cyclic {
        public boolean isIterative() {
            return true;
        }
    }

    public static class Broken {
        public boolean isIterative() {
            throw new IllegalStateException("the graph is gone");
        }
    }
}
