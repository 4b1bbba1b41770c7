package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A task waits for an empty buffer: back-pressure, which is not its own time. */
public final class BufferHook extends Hook {
    @Override
    public List<String> types() {
        return List.of("org.apache.flink.runtime.io.network.buffer.LocalBufferPool");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("requestBufferBuilderBlocking").and(takesArguments(1));
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static long enter() {
        return System.nanoTime();
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
    static void exit(@Advice.Enter long start) {
        Meter.blocked(start);
    }
}
