package dev.weir.agent.hooks;

import java.util.List;
import java.util.Map;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/**
 * One place in Flink where the agent steps in. The subclass's static methods are copied into the
 * method that it names; what they throw there is dropped.
 */
public abstract class Hook {
    /** Field of a changed class that keeps its task's meter. */
    public static final String METER = "weir$meter";

    /** Field of a changed class that names the operators that records go to. */
    public static final String RECEIVERS = "weir$receivers";

    static final String TASKS = "org.apache.flink.streaming.runtime.tasks.";
    static final String IO = "org.apache.flink.streaming.runtime.io.";
    static final List<String> OUTPUTS =
            List.of(
                    TASKS + "OneInputStreamTask$StreamTaskNetworkOutput",
                    IO + "StreamTwoInputProcessorFactory$StreamTaskNetworkOutput",
                    IO + "StreamMultipleInputProcessorFactory$StreamTaskNetworkOutput");

    /** Returns the classes of Flink that are changed. */
    public abstract List<String> types();

    /** Returns which of their methods. */
    public abstract ElementMatcher.Junction<MethodDescription> method();

    /** Returns the fields that the classes get; a text stays with an object that is serialized. */
    public Map<String, Class<?>> fields() {
        return Map.of();
    }

    @Override
    public String toString() {
        return method() + " of " + types();
    }
}
