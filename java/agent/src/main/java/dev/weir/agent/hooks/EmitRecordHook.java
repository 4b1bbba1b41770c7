package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isSynthetic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;

import dev.weir.agent.Meter;
import java.util.Map;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A record is passed on, by a class that keeps its task's meter. */
abstract class EmitRecordHook extends Hook {
    @Override
    public final ElementMatcher.Junction<MethodDescription> method() {
        return named("emitRecord").and(not(isSynthetic()));
    }

    @Override
    public final Map<String, Class<?>> fields() {
        return Map.of(METER, Meter.class);
    }
}
