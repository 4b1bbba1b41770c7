package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;

/** A function of a task meets a latency marker: the records before it are as old. */
public final class MarkerHook extends Hook {
    @Override
    public List<String> types() {
        return List.of("org.apache.flink.streaming.util.LatencyStats");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("reportLatency");
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static void enter(@Advice.Argument(0) LatencyMarker marker) {
        Meter.takeMarker(marker);
    }
}
