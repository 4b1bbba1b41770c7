package dev.weir.agent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.flink.runtime.jobgraph.OperatorID;
import org.apache.flink.streaming.runtime.io.PushingAsyncDataInput.DataOutput;
import org.junit.jupiter.api.Test;

class MeterTest {
    @Test
    void nothingIsMeasuredBeforeATaskIsAttached() {
        assertEquals(0, new Meter().begin());
    }

    @Test
    void quickRecordsAreTimedNowAndThen() {
        Meter meter = new Meter();
        meter.measure();

        for (int record = 0; record < 100_000; record++) {
            long start = meter.begin();
            if (start != 0) {
                meter.end(start);
            }
        }

        assertTrue(meter.count() > 1_000 && meter.count() < 20_000, "" + meter.count());
    }

    @Test
    void slowRecordsAreAllTimed() throws Exception {
        Meter meter = new Meter();
        meter.measure();

        for (int record = 0; record < 100; record++) {
            meter.beginPoll();
            Thread.sleep(0, 100_000);
            meter.endPolled(null);
        }

        assertEquals(100, meter.count());
    }

    @Test
    void aSourceSendsSomeMarkersASecondBehindItsRecords() throws Exception {
        Meter meter = new Meter();
        meter.mark(new OperatorID());
        List<String> sent = new ArrayList<>();
        Object output =
                Proxy.newProxyInstance(
                        MeterTest.class.getClassLoader(),
                        new Class<?>[] {DataOutput.class},
                        (proxy, method, arguments) -> sent.add(method.getName()));

        for (int record = 0; record < 20; record++) {
            Thread.sleep(70);
            meter.endPolled(output);
        }
        int behindSlow = sent.size();
        for (int record = 0; record < 100_000; record++) {
            meter.endPolled(output);
        }

        assertEquals(20, behindSlow);
        assertTrue(sent.size() - behindSlow < 200, "" + sent.size());
        assertEquals(Set.of("emitLatencyMarker"), Set.copyOf(sent));
    }

    @Test
    void recordsBetweenTwoMarkersAreAsOldAsTheSecond() throws Exception {
        Meter meter = new Meter();
        meter.begin();
        meter.age(100);
        meter.age(100);
        for (int record = 0; record < 9; record++) {
            meter.endPolled(null);
        }
        meter.age(200);

        assertEquals(10, meter.agedCount());
        assertEquals((100 + 9 * 200) * 1e3, meter.agedMicros());
    }

    @Test
    void aMarkerOfTheFutureMakesNoRecordYounger() throws Exception {
        Meter meter = new Meter();
        meter.begin();

        meter.age(-5);

        assertEquals(1, meter.agedCount());
        assertEquals(0, meter.agedMicros());
    }
}
