package dev.weir.agent.hooks;

import static net.bytebuddy.matcher.ElementMatchers.isSynthetic;
import static net.bytebuddy.matcher.ElementMatchers.named;
import static net.bytebuddy.matcher.ElementMatchers.not;

import dev.weir.agent.KeyCounts;
import java.util.List;
import java.util.Map;
import net.bytebuddy.asm.Advice;
import net.bytebuddy.description.method.MethodDescription;
import net.bytebuddy.matcher.ElementMatcher;
import org.apache.flink.api.java.functions.KeySelector;
import org.apache.flink.runtime.plugable.SerializationDelegate;
import org.apache.flink.streaming.runtime.streamrecord.StreamRecord;

/** A record is sent to the subtask that has its key. */
public final class KeyHook extends Hook {
    private static final String COUNTS = "weir$counts";
    private static final String LEFT = "weir$left";

    @Override
    public List<String> types() {
        return List.of("org.apache.flink.streaming.runtime.partitioner.KeyGroupStreamPartitioner");
    }

    @Override
    public ElementMatcher.Junction<MethodDescription> method() {
        return named("selectChannel").and(not(isSynthetic()));
    }

    /** The receivers travel with the partitioner from the JobManager to the tasks. */
    @Override
    public Map<String, Class<?>> fields() {
        return Map.of(COUNTS, KeyCounts.class, LEFT, int.class, RECEIVERS, String.class);
    }

    /** A record that is not counted costs one number of the partitioner's own. */
    @Advice.OnMethodEnter(suppress = Throwable.class)
    static void enter(
            @Advice.Argument(0) SerializationDelegate<StreamRecord<Object>> record,
            @Advice.FieldValue("keySelector") KeySelector<Object, Object> selector,
            @Advice.FieldValue("maxParallelism") int groups,
            @Advice.FieldValue(RECEIVERS) String receivers,
            @Advice.FieldValue(value = LEFT, readOnly = false) int left,
            @Advice.FieldValue(value = COUNTS, readOnly = false) KeyCounts counts)
            throws Exception {
        if (--left < 0) {
            if (counts == null) {
                counts = KeyCounts.of(receivers, groups);
            }
            left = Integer.MAX_VALUE; // where records are not counted, or have no key
            if (counts.isOn()) {
                left = counts.add(selector.getKey(record.getInstance().getValue())) - 1;
            }
        }
    }
}
