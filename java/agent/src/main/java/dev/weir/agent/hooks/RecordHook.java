package dev.weir.agent.hooks;

import dev.weir.agent.Meter;
import java.util.List;
import net.bytebuddy.asm.Advice;

/** A record passes through the whole chain of a task. */
public final class RecordHook extends EmitRecordHook {
    @Override
    public List<String> types() {
        return OUTPUTS;
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
