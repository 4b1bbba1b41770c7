package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A source is asked for records: the time of the first begins. */
public final class SourcePollHook extends Hook {
    @Override
    public List<String> types() {
        return List.of("org.apache.flink.streaming.api.operators.SourceOperator");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("emitNext");
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static void enter() {
        Meter.current().beginPoll();
    }
}
