package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.apache.flink.api.common.resources.ExternalResource;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.clusterframework.types.ResourceProfile;
import org.apache.flink.streaming.api.graph.StreamGraph;
import org.junit.jupiter.api.Test;

class RewriterTest {
    private final Configuration settings = new Configuration();

    @Test
    void eachOperatorGetsTheParallelismAndTheSlotsThatTheSettingsAskFor() {
        settings.setString("weir.pin", "true");
        settings.setString("weir.parallelism.numbers", "3");
        settings.setString("weir.parallelism.sums", "1");
        settings.setString("weir.managed-memory.sums", "32m");
        StreamGraph graph = Graphs.of(settings);

        Rewriter.rewrite(new Object[] {"other", graph});

        assertEquals(Set.of("numbers 3", "sums 1"), pins(graph));
        ResourceProfile sums = graph.getSlotSharingGroupResource("sums").orElseThrow();
        assertEquals(32, sums.getManagedMemory().getMebiBytes());
        assertEquals(Set.of("op-sums"), sums.getExtendedResources().keySet());
    }

    @Test
    void whatTheSettingsDoNotNameKeepsTheProgramsParallelism() {
        settings.setString("weir.pin", "true");
        StreamGraph graph = Graphs.of(settings);

        Rewriter.rewrite(graph);

        assertEquals(Set.of("numbers 2", "sums 2"), pins(graph));
    }

    @Test
    void aJobThatIsNotSubmittedByWeirIsLeftAlone() {
        settings.setString("weir.parallelism.numbers", "3");
        StreamGraph graph = Graphs.of(settings);
        Set<String> before = pins(graph);

        Rewriter.rewrite(graph);

        assertEquals(before, pins(graph));
    }

    @Test
    void aJobThatAsksForTheResourcesItselfIsLeftAlone() {
        settings.setString("weir.pin", "true");
        StreamGraph graph = Graphs.of(settings);
        Set<String> before = pins(graph);
        graph.getStreamNodes()
                .forEach(
                        node ->
                                graph.setSlotSharingGroupResource(
                                        Map.of(
                                                node.getSlotSharingGroup(),
                                                ResourceProfile.newBuilder()
                                                        .setCpuCores(1)
                                                        .setTaskHeapMemoryMB(1)
                                                        .setExtendedResource(
                                                                new ExternalResource("op-x", 1))
                                                        .build())));

        Rewriter.rewrite(graph);

        assertEquals(before, pins(graph));
    }

    @Test
    void moreReplicasThanTheMaximumParallelismAreRefusedAndNothingIsChanged() {
        settings.setString("weir.pin", "true");
        settings.setString("weir.parallelism.numbers", "3");
        settings.setString("weir.parallelism.sums", "5");
        StreamGraph graph = Graphs.of(settings);
        Set<String> before = pins(graph);

        assertThrows(Refusal.class, () -> Rewriter.rewrite(new Object[] {graph}));

        assertEquals(before, pins(graph));
    }

    @Test
    void aSettingThatIsNoNumberLeavesTheJobToFlink() {
        settings.setString("weir.pin", "true");
        settings.setString("weir.parallelism.sums", "many");
        StreamGraph graph = Graphs.of(settings);
        Set<String> before = pins(graph);

        Rewriter.rewrite(new Object[] {graph});

        assertEquals(before, pins(graph));
        assertEquals(
                1,
                StepBack.reasons().stream().filter(each -> each.contains("\"many\"")).count());
    }

    private static Set<String> pins(StreamGraph graph) {
        return graph.getStreamNodes().stream()
                .map(node -> node.getSlotSharingGroup() + " " + node.getParallelism())
                .collect(Collectors.toCollection(TreeSet::new));
    }
}
