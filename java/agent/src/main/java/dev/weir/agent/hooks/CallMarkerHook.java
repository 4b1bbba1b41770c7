package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;
import org.apache.flink.streaming.api.operators.async.AsyncWaitOperator;
import org.apache.flink.streaming.runtime.streamrecord.LatencyMarker;

/** A latency marker passes asynchronous calls that records wait for: it ages as they do. */
public final class CallMarkerHook extends Hook {
    @Override
    public List<String> types() {
        return List.of("org.apache.flink.streaming.api.operators.AbstractStreamOperator");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("reportOrForwardLatencyMarker");
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static void enter(
            @Advice.This Object operator,
            @Advice.Argument(value = 0, readOnly = false) LatencyMarker marker) {
        if (operator instanceof AsyncWaitOperator) {
            marker = Meter.behindCalls(marker);
        }
    }
}
