package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArgument;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A watermark passes, and windows fire: work that belongs to no record. */
public final class WatermarkHook extends Hook {
    @Override
    public List<String> types() {
        return OUTPUTS;
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("emitWatermark")
                .and(
                        takesArgument(
                                0, named("org.apache.flink.streaming.api.watermark.Watermark")));
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
