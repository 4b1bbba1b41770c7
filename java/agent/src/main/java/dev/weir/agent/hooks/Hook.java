package dev.weir.agent.hooks;

import java.util.List;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/**
 * One place in Flink where the agent steps in. The subclass's static methods are copied into the
 * method that it names; what they throw there is dropped.
 */
public abstract class Hook {
    /** Field of a changed class that keeps its task's meter. */
    public static final String METER = "weir$meter";

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

    /** Returns whether the classes get the field {@link #METER}. */
    public boolean keepsMeter() {
        return false;
    }

    @Override
    public String toString() {
        return method() + " of " + types();
    }
}
