package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isSynthetic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A record passes through the whole chain of a task. */
public final class RecordHook extends Hook {
    @Override
    public List<String> types() {
        return OUTPUTS;
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("emitRecord").and(not(isSynthetic()));
    }

    @Override
    public boolean keepsMeter() {
        return true;
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static long enter(@Advice.FieldValue(value = METER, readOnly = false) Meter meter) {
        if (meter == null) {
            meter = Meter.current();
        }
        return meter.begin();
    }

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.FieldValue(METER) Meter meter, @Advice.Enter long start) {
        if (start != 0) {
            meter.end(start);
        }
    }
}
