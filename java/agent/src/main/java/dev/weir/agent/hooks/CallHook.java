package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isSynthetic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;
import org.apache.flink.streaming.api.operators.async.queue.StreamElementQueue;

/** A record begins or ends to wait for the answer to an asynchronous call. */
public final class CallHook extends Hook {
    @Override
    public List<String> types() {
        String queue = "org.apache.flink.streaming.api.operators.async.queue.";
        return List.of(
                queue + "OrderedStreamElementQueue", queue + "UnorderedStreamElementQueue");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("tryPut").or(named("emitCompletedElement")).and(not(isSynthetic()));
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static int enter(@Advice.This Object queue) {
        int waiting = ((StreamElementQueue<?>) queue).size();
        Meter.waited(waiting);
        return waiting;
    }

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.This Object queue, @Advice.Enter int before) {
        if (((StreamElementQueue<?>) queue).size() > before) {
            Meter.called();
        }
    }
}
