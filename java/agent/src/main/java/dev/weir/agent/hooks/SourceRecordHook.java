package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isSynthetic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A source's record has passed through its chain: the time of the next begins. */
public final class SourceRecordHook extends Hook {
    @Override
    public List<String> types() {
        return List.of(TASKS + "SourceOperatorStreamTask$AsyncDataOutputToOutput");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("emitRecord").and(not(isSynthetic()));
    }

    @Override
    public boolean keepsMeter() {
        return true;
    }

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.FieldValue(value = METER, readOnly = false) Meter meter) {
        if (meter == null) {
            meter = Meter.current();
        }
        meter.endPolled();
    }
}
