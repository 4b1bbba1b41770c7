package dev.weir.agent.hooks;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;

/** A source's record has passed through its chain: the time of the next begins. */
public final class SourceRecordHook extends EmitRecordHook {
    @Override
    public List<String> types() {
        return List.of(TASKS + "SourceOperatorStreamTask$AsyncDataOutputToOutput");
    }

    @Advice.OnMethodExit(suppress = Throwable.class)
    static void exit(@Advice.FieldValue(value = METER, readOnly = false) Meter meter) {
        if (meter == null) {
            meter = Meter.current();
        }
        meter.endPolled();
    }
}
