package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.weir.agent.hooks.Hook;
import java.io.IOException;
import java.io.InputStream;
import org.junit.jupiter.api.Test;

class TransformerTest {
    private final Transformer transformer = new Transformer(Agent.hooks());

    @Test
    void thisFlinkHasEveryPlaceThatTheAgentStepsInAt() throws IOException {
        for (Hook hook : Agent.hooks()) {
            for (String type : hook.types()) {
                String name = type.replace('.', '/');
                ClassLoader loader = getClass().getClassLoader();
                try (InputStream code = loader.getResourceAsStream(name + ".class")) {
                    assertNotNull(
                            transformer.transform(loader, name, null, null, code.readAllBytes()),
                            () -> type + ": " + StepBack.reasons());
                }
            }
        }
    }

    @Test
    void aClassThatCannotBeChangedStaysAsItIsAndTheReasonIsKept() {
        String name = "org/apache/flink/streaming/runtime/tasks/StreamTask";

        byte[] changed =
                transformer.transform(getClass().getClassLoader(), name, null, null, new byte[7]);

        assertNull(changed);
        assertTrue(StepBack.reasons().toString().contains("StreamTask"));
    }

    @Test
    void otherClassesAreNotLookedAt() {
        assertNull(transformer.transform(null, "java/lang/String", null, null, new byte[0]));
    }
}
