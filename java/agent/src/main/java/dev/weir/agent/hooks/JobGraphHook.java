package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isStatic;
import static net.bytebuddy.matcher.ElementMatchers.isSynthetic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;

import dev.weir.agent.Refusal;
import dev.weir.agent.Rewriter;
import java.util.List;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;

/** Every job, of whatever API, passes here before Flink makes chains of its operators. */
public final class JobGraphHook extends Hook {
    @Override
    public List<String> types() {
        return List.of("org.apache.flink.streaming.api.graph.StreamingJobGraphGenerator");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("createJobGraph").and(isStatic()).and(not(isSynthetic()));
    }

    /** The signature differs between versions; the graph is among the arguments. */
    @Advice.OnMethodEnter
    static void enter(@Advice.AllArguments Object[] arguments) throws Refusal {
        Rewriter.rewrite(arguments);
    }
}
