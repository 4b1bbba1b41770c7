package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.takesArguments;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** A task starts, on the thread that will process its records. */
public final class TaskStartHook extends Hook {
    @Override
    public List<String> types() {
        return List.of(TASKS + "StreamTask");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("restore").and(takesArguments(0));
    }

    @Advice.OnMethodEnter(suppress = Throwable.class)
    static void enter(@Advice.This Object task) {
        Meter.attach(task);
    }
}
