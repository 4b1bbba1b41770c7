package dev.weir.agent.hooks;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;

/** A source's record has passed through its chain: a marker may follow, and the time of the next. */
public final class SourceRecordHook extends EmitRecordHook {
    @Override
    public List<String> types() {
        return List.of(TASKS + "SourceOperatorStreamTask$AsyncDataOutputToOutput");
    }

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(
            @Advice.This Object output,
            @Advice.FieldValue(value = METER, readOnly = false) Meter meter)
            throws Exception {
        if (meter == null) {
            meter = Meter.current();
        }
        meter.endPolled(output);
    }
}
