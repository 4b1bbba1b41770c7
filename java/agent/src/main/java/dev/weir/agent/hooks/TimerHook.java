package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A timer fires in processing time: work that belongs to no record. */
public final class TimerHook extends Hook {
    @Override
    public List<String> types() {
        return List.of(TASKS + "StreamTask");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("invokeProcessingTimeCallback");
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static long enter() {
        return Meter.beginOther();
    }

    @Advice.OnMethodExit(onThrowable = Throwable.class, suppress = Throwable.class)
    static void exit(@Advice.Enter long start) {
        Meter.endOther(start);
    }
}
